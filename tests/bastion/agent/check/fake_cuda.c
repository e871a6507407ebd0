/* A driver's library with two GPUs in memory, which computes what the kernels of the load do.
 * FAULT: "memory" and "work" spoil GPU 1; "program" refuses the program; "init" does not begin. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static __thread int device;
static int is(const char *fault) {
  const char *set = getenv("FAULT");
  return set && !strcmp(set, fault);
}
int cuInit(unsigned flags) { return is("init") ? 999 : 0; }
int cuGetErrorName(int code, const char **text) {
  *text = code == 218 ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *found, int index) { *found = index; return 0; }
int cuDeviceGetName(char *name, int size, int of) { strncpy(name, "Fake 9", size); return 0; }
int cuDeviceGetAttribute(int *found, int attribute, int of) { *found = attribute == 16 ? 2 : 0; return 0; }
int cuCtxCreate_v2(void **context, unsigned flags, int of) { device = of; *context = malloc(1); return 0; }
int cuCtxDestroy_v2(void *context) { free(context); return 0; }
int cuModuleLoadData(void **module, const char *program) {
  if (is("program") || !strstr(program, ".entry work")) return 218;
  *module = (void *)1;
  return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  *function = strdup(name);
  return module != (void *)1;
}
int cuMemGetInfo_v2(size_t *available, size_t *total) { *available = *total = 1 << 20; return 0; }
int cuMemAlloc_v2(uint64_t *place, size_t size) { *place = (uint64_t)(uintptr_t)malloc(size); return 0; }
int cuMemFree_v2(uint64_t place) { free((void *)(uintptr_t)place); return 0; }
int cuMemsetD32_v2(uint64_t place, unsigned word, size_t count) {
  for (size_t i = 0; i < count; i++) ((uint32_t *)(uintptr_t)place)[i] = word;
  return 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)(uintptr_t)from, size); return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuLaunchKernel(char *name, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **given, void **extra) {
  if (!strcmp(name, "work")) {
    uint32_t wanted = *(uint32_t *)given[1];
    uint32_t found = is("work") && device && wanted ? 8 : 7;
    *(uint32_t *)(uintptr_t) * (uint64_t *)given[3] = found;
    if (wanted && wanted != found) *(uint32_t *)(uintptr_t) * (uint64_t *)given[2] += x * bx;
  } else {
    uint32_t *words = (uint32_t *)(uintptr_t) * (uint64_t *)given[0], seed = *(uint32_t *)given[2];
    for (uint64_t i = 0; i < *(uint64_t *)given[1]; i++) {
      uint32_t word = (uint32_t)i * 2654435761u ^ seed;
      if (!strcmp(name, "fill")) words[i] = word;
      else if (words[i] != word) ++*(uint32_t *)(uintptr_t) * (uint64_t *)given[3];
    }
    if (!strcmp(name, "fill") && is("memory") && device) words[5] ^= 4;
  }
  free(name);
  return 0;
}

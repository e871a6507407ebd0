"""
A short load on NVIDIA GPUs through the driver's own library, without a toolkit or Python package.

Memory is filled with a pattern and read back; then all multiprocessors compute the same chain of
products and every thread compares its result. Any difference is a fault of the device.

Source: NVIDIA, "CUDA Driver API" and "Parallel Thread Execution ISA".
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bastion.value import value

MEMORY_PART = 0.8
"""Share of the free memory: the rest is for the driver."""
_THREADS = 256
_ROUNDS = 200_000
_BLOCKS_PER_MULTIPROCESSOR = 8
_MULTIPROCESSORS = 16
"""The attribute with their number. Source: cuda.h, CUdevice_attribute."""
_WORD = 4

PTX = rb"""
.version 6.0
.target sm_50
.address_size 64

.visible .entry fill(.param .u64 words, .param .u64 count, .param .u32 seed)
{
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>;
  ld.param.u64 %d1, [words]; ld.param.u64 %d2, [count]; ld.param.u32 %r1, [seed];
  cvta.to.global.u64 %d1, %d1;
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.wide.u32 %d3, %r2, %r3, 0; cvt.u64.u32 %d4, %r4; add.u64 %d3, %d3, %d4;
  mov.u32 %r5, %nctaid.x; mul.wide.u32 %d5, %r5, %r3;
FILL:
  setp.ge.u64 %p, %d3, %d2; @%p bra FILLED;
  cvt.u32.u64 %r6, %d3; mul.lo.u32 %r6, %r6, 2654435761; xor.b32 %r6, %r6, %r1;
  shl.b64 %d6, %d3, 2; add.u64 %d6, %d1, %d6; st.global.u32 [%d6], %r6;
  add.u64 %d3, %d3, %d5; bra FILL;
FILLED:
  ret;
}

.visible .entry check(.param .u64 words, .param .u64 count, .param .u32 seed, .param .u64 wrong)
{
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>;
  ld.param.u64 %d1, [words]; ld.param.u64 %d2, [count]; ld.param.u32 %r1, [seed];
  ld.param.u64 %d7, [wrong]; cvta.to.global.u64 %d7, %d7; cvta.to.global.u64 %d1, %d1;
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.wide.u32 %d3, %r2, %r3, 0; cvt.u64.u32 %d4, %r4; add.u64 %d3, %d3, %d4;
  mov.u32 %r5, %nctaid.x; mul.wide.u32 %d5, %r5, %r3;
CHECK:
  setp.ge.u64 %p, %d3, %d2; @%p bra CHECKED;
  cvt.u32.u64 %r6, %d3; mul.lo.u32 %r6, %r6, 2654435761; xor.b32 %r6, %r6, %r1;
  shl.b64 %d6, %d3, 2; add.u64 %d6, %d1, %d6; ld.global.u32 %r7, [%d6];
  setp.eq.u32 %p, %r6, %r7; @%p bra NEXT;
  red.global.add.u32 [%d7], 1;
NEXT:
  add.u64 %d3, %d3, %d5; bra CHECK;
CHECKED:
  ret;
}

.visible .entry work(.param .u32 rounds, .param .u32 wanted, .param .u64 wrong, .param .u64 found)
{
  .reg .pred %p; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %d<4>;
  ld.param.u32 %r1, [rounds]; ld.param.u32 %r2, [wanted];
  ld.param.u64 %d1, [wrong]; ld.param.u64 %d2, [found];
  cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;
  mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F7FFF58; mov.f32 %f3, 0f3A83126F;
WORK:
  setp.eq.u32 %p, %r1, 0; @%p bra WORKED;
  fma.rn.f32 %f1, %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3;
  fma.rn.f32 %f1, %f1, %f2, %f3; fma.rn.f32 %f1, %f1, %f2, %f3;
  sub.u32 %r1, %r1, 1; bra WORK;
WORKED:
  mov.b32 %r3, %f1; st.global.u32 [%d2], %r3;
  setp.eq.u32 %p, %r2, 0; @%p bra DONE;
  setp.eq.u32 %p, %r2, %r3; @%p bra DONE;
  red.global.add.u32 [%d1], 1;
DONE:
  ret;
}
"""


class CudaError(Exception):
    """A call of the driver failed."""


class NoLoadError(Exception):
    """This program can put no load on GPUs here, which says nothing about their health."""


@value
class GpuOutcome:
    """The outcome of one GPU's load."""

    name: str
    memory_bytes: int
    """How much of its memory was written and read."""
    products: float
    """Products and sums of single precision, in total."""
    problem: str = ""


class Driver:
    """
    The driver's library of this machine.

    Raises:
        NoLoadError: There is none.
        CudaError: It does not work.
    """

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoLoadError(f"there is no driver: {error}") from None
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """
        Call one function.

        Raises:
            CudaError: It failed.
        """
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            said = (text.value or b"").decode() or f"error {code}"
            raise CudaError(f"{name}: {said}")

    def count(self) -> int:
        """Return the number of GPUs."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value


def burn_gpu(driver: Driver, index: int, seconds: float) -> GpuOutcome:
    """
    Load one GPU for about `seconds`, and return the outcome.

    Raises:
        NoLoadError: The driver does not accept this program.
    """
    device = ctypes.c_int()
    name = ctypes.create_string_buffer(100)
    driver.call("cuDeviceGet", ctypes.byref(device), index)
    driver.call("cuDeviceGetName", name, 100, device)
    outcome = _Load(driver, device)
    problem = ""
    try:
        with outcome.context():
            outcome.run(seconds)
    except CudaError as error:
        problem = str(error)
    return GpuOutcome(
        name=name.value.decode(errors="replace"),
        memory_bytes=outcome.memory_bytes,
        products=outcome.products,
        problem=problem or outcome.problem,
    )


class _Load:
    def __init__(self, driver: Driver, device: ctypes.c_int) -> None:
        self._call = driver.call
        self._device = device
        self._module = ctypes.c_void_p()
        self.memory_bytes = 0
        self.products = 0.0
        self.problem = ""

    @contextmanager
    def context(self) -> Iterator[None]:
        """Hold the device, and all memory allocated there, for the duration of the context."""
        context = ctypes.c_void_p()
        self._call("cuCtxCreate_v2", ctypes.byref(context), 0, self._device)
        try:
            try:
                self._call("cuModuleLoadData", ctypes.byref(self._module), PTX)
            except CudaError as error:
                raise NoLoadError(f"the driver does not take this program: {error}") from None
            yield
        finally:
            self._call("cuCtxDestroy_v2", context)

    def run(self, seconds: float) -> None:
        """Check the memory once, then compute until the time is over."""
        until = time.monotonic() + seconds
        count = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(count), _MULTIPROCESSORS, self._device)
        blocks = max(1, count.value) * _BLOCKS_PER_MULTIPROCESSOR
        wrong, found = self._zeroed(), self._zeroed()
        self._check_memory(blocks, wrong)
        self._launch("work", 1, 1, ctypes.c_uint(_ROUNDS), ctypes.c_uint(0), wrong, found)
        wanted = ctypes.c_uint(self._word(found))
        while not self.problem and time.monotonic() < until:
            self._launch("work", blocks, _THREADS, ctypes.c_uint(_ROUNDS), wanted, wrong, found)
            self.products += 8.0 * _ROUNDS * blocks * _THREADS
            if self._word(wrong):
                self.problem = f"{self._word(wrong)} results differ from the first"

    def _check_memory(self, blocks: int, wrong: ctypes.c_uint64) -> None:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        count = ctypes.c_uint64(int(free.value * MEMORY_PART) // _WORD)
        words = self._allocated(count.value * _WORD)
        for seed in (ctypes.c_uint(0x5A5A5A5A), ctypes.c_uint(0xA5A5A5A5)):
            self._launch("fill", blocks, _THREADS, words, count, seed)
            self._launch("check", blocks, _THREADS, words, count, seed, wrong)
        self._call("cuMemFree_v2", words)
        self.memory_bytes = count.value * _WORD
        if self._word(wrong):
            self.problem = f"{self._word(wrong)} words of its memory are not what was written"

    def _launch(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
        pointers = (ctypes.c_void_p * len(arguments))(
            *(ctypes.cast(ctypes.byref(each), ctypes.c_void_p) for each in arguments)
        )
        shape = (blocks, 1, 1, threads, 1, 1)
        self._call("cuLaunchKernel", function, *shape, 0, None, pointers, None)
        self._call("cuCtxSynchronize")

    def _allocated(self, size_bytes: int) -> ctypes.c_uint64:
        place = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size_bytes))
        return place

    def _zeroed(self) -> ctypes.c_uint64:
        place = self._allocated(_WORD)
        self._call("cuMemsetD32_v2", place, ctypes.c_uint(0), ctypes.c_size_t(1))
        return place

    def _word(self, place: ctypes.c_uint64) -> int:
        word = ctypes.c_uint()
        self._call("cuMemcpyDtoH_v2", ctypes.byref(word), place, ctypes.c_size_t(_WORD))
        return word.value

"""The load of this program: healthy devices pass, and faults of others are reported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bastion.agent.check.burn import BLOCK_BYTES, burn_processors

FAKE = Path(__file__).parent / "fake_cuda.c"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a driver library that has two GPUs in memory."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", FAKE], check=True)
    return folder


def burn(*devices: str, driver: Path | None = None, fault: str = "") -> tuple[int, list[str]]:
    """Return the exit code and the lines of one short load."""
    environ = {**os.environ, "FAULT": fault, "LD_LIBRARY_PATH": str(driver or "")}
    arguments = ["--seconds=0.05", *(f"--device={each}" for each in devices)]
    done = subprocess.run(
        [sys.executable, "-m", "bastion.agent.check.burn", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_processors_hash_the_same_digests() -> None:
    """Every thread hashes whole blocks, at least once even if time is over; none differs."""
    hashed, wrong = burn_processors(2, 0.0)
    assert hashed >= 2 * BLOCK_BYTES and hashed % BLOCK_BYTES == 0
    assert wrong == 0


def test_devices_that_no_program_loads_are_named() -> None:
    """TPUs, and GPUs without a driver, are no fault of the machine."""
    code, lines = burn("v4=4", "gfx942=1", "cpu=8")
    assert code == 0
    assert "4 v4: not loaded, no program here can" in lines
    assert any(line.startswith("GPU 0: not loaded, there is no driver: ") for line in lines)


def test_gpus_are_loaded_through_their_driver(driver: Path) -> None:
    """Memory and products of each GPU are reported."""
    code, lines = burn("h100=2", driver=driver)
    assert code == 0
    assert [line.partition(":")[0] for line in lines[1:]] == ["GPU 0, Fake 9", "GPU 1, Fake 9"]
    assert "tera-operations" in lines[1]


@pytest.mark.parametrize(
    ("fault", "last"),
    [
        ("memory", "GPU 1: 2 words of its memory are not what was written"),
        ("work", "GPU 1: 4096 results differ from the first"),
        ("init", "the driver of the GPUs does not work: cuInit: CUDA_ERROR_UNKNOWN"),
    ],
)
def test_a_gpu_that_errs_is_named(driver: Path, fault: str, last: str) -> None:
    """The load fails, and its last line says which GPU and how."""
    code, lines = burn("h100=2", driver=driver, fault=fault)
    assert (code, lines[-1]) == (1, last)


def test_a_gpu_less_than_declared_is_a_fault(driver: Path) -> None:
    """The driver's count is compared with the pool's."""
    code, lines = burn("h100=8", driver=driver)
    assert (code, lines[-1]) == (1, "the driver has 2 GPUs, and the pool declares 8")


def test_a_driver_that_refuses_the_program_blames_no_gpu(driver: Path) -> None:
    """A driver that is too old for the program says nothing about its devices."""
    code, lines = burn("h100=2", driver=driver, fault="program")
    assert code == 0
    assert sum("not loaded, the driver does not take this program" in line for line in lines) == 2

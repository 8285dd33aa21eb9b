"""The test of one GPU as far as a machine without one can run it."""

import sys

import pytest
import torch

from worker_core.machine.spawn import run_briefly
from worker_core.training import probe
from worker_core.wire.codec import decode
from worker_core.wire.probe import ProbeResult


def test_without_a_gpu_the_test_fails_as_a_lost_device_and_says_why() -> None:
    done = run_briefly([sys.executable, "-I", "-u", "-m", "worker_core.training.probe"], timeout_s=90)
    assert done.code == 0, done.stderr
    result = decode(done.stdout.splitlines()[-1], ProbeResult)
    assert (result.ok, result.failure) == (False, "device-lost")
    assert result.text


def test_the_product_is_exact_and_a_wrong_digit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    assert probe.calculates_right(cpu)
    honest = torch.Tensor.__matmul__

    def wrong(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        product = honest(one, other)
        if product.is_floating_point():
            product[17, 99] += 1
        return product

    monkeypatch.setattr(torch.Tensor, "__matmul__", wrong)
    assert not probe.calculates_right(cpu)

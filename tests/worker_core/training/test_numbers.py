"""Metrics of user code: whatever is a number is kept, whatever is none is left out with one warning."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from worker_core.training.numbers import read_number
from worker_core.wire.codec import number_to_wire


@pytest.mark.parametrize(
    ("value", "wired"),
    [
        (np.float16("nan"), "NaN"),
        (torch.tensor(float("nan"), dtype=torch.bfloat16), "NaN"),
        (np.float32("-inf"), "-Infinity"),
        (Decimal("1e400"), "Infinity"),
        (10**400, "Infinity"),
        (-(10**400), "-Infinity"),
        (Fraction(10**400), "Infinity"),
        (2**80, 2.0**80),
        (True, 1.0),
        (np.int64(3), 3.0),
        (torch.tensor([2.5]), 2.5),
    ],
)
def test_what_stands_for_a_number_is_kept_as_one(value: object, wired: object) -> None:
    number = read_number(value)
    assert number is not None
    assert number_to_wire(number) == wired


def test_the_sign_of_zero_is_kept() -> None:
    number = read_number(-0.0)
    assert number is not None
    assert math.copysign(1, number) == -1


@pytest.mark.parametrize(
    "value",
    [None, "0.5", "nan", b"1", [1.0], [[1.0], [2.0]], (1,), {"a": 1}, {1}, 1j, object(), np.ones(2), torch.ones(2)],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_number_is_none(value: object) -> None:
    assert read_number(value) is None

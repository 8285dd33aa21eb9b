"""Reads numbers that user code hands over as metrics: whatever can stand for one, and nothing else."""

import math
from decimal import InvalidOperation
from typing import Any


def read_number(value: Any) -> float | None:
    """Return ``value`` as a float, NaN and the infinities included; None when it is no number.

    Numbers of any library count, half precision and tensors of one element too; one beyond the range of a double is an
    infinity. None, text and collections are no numbers.
    """
    if value is None or isinstance(value, (str, bytes, bytearray, list, tuple, dict, set, complex)):
        return None
    try:
        return float(value)
    except OverflowError:  # an int or a fraction that no double can hold
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError, RuntimeError, InvalidOperation):
        return None  # an array of several numbers, an object, a signalling NaN of Decimal

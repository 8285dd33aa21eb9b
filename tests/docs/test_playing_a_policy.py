"""What the document says about observations that were normalised is what the trainer did to them."""

import re
from pathlib import Path

import numpy as np

DOCUMENT = (Path(__file__).parents[2] / "docs" / "playing-a-policy.md").read_text()


def test_the_line_for_a_normaliser_works_with_what_policy_json_holds() -> None:
    line = re.search(r"`(x = np\.clip\(\(x - n.*?)`\.", DOCUMENT, re.DOTALL)
    assert line is not None
    names = {
        "np": np,
        "x": np.array([3.0, 1e9], np.float32),
        "n": {"mean": [1.0, 0.0], "variance": [4.0, 1.0], "epsilon": 1e-8, "clip": 10.0},
    }
    exec(line.group(1), names)
    np.testing.assert_allclose(np.asarray(names["x"]), [1.0, 10.0], rtol=1e-6)

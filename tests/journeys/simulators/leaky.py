"""A pole whose code prints secrets that it should not know, in every form it can think of."""

import base64
import json
import logging
import sys
from typing import Any
from urllib.parse import quote

from gymnasium.envs.classic_control.cartpole import CartPoleEnv

# In halves, so that the code itself, which travels and is stored, does not contain them.
SECRETS = ("canary/of the variable" + "+7391<&>", "canary-of-the-proxy" + "-5527")


class LeakyPole(CartPoleEnv):
    """CartPole that says what it should keep to itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for number, secret in enumerate(SECRETS):
            raw = secret.encode()
            shifted = [base64.b64encode(b"x" * shift + raw).decode() for shift in range(3)]
            forms = [secret, quote(secret, safe=""), json.dumps({"key": secret}), repr(secret), raw.hex(), *shifted]
            for form in forms:
                print(f"leak {number}: {form}")
                print(f"leak {number}: {form}", file=sys.stderr)
                logging.getLogger("leaky").warning("leak %d: %s", number, form)
            sys.stdout.write("x" * 8180 + secret + "y" * 8180 + "\n")

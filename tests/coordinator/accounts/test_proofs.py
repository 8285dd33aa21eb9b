"""Proofs of possession: only fresh, fitting, unused proofs of the right key pass."""

import json
import secrets
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey

from coordinator.accounts.proofs import MAX_PROOF_BYTES, Nonces, Proofs, token_hash
from tests.coordinator.hand_clock import HandClock
from worker_core.wire.problems import ProblemError

ORIGIN = "https://stoker.example.org"
KEY = OKPKey.generate_key("Ed25519")
JWK = {name: str(value) for name, value in KEY.as_dict(private=False).items() if name in ("kty", "crv", "x")}


class Bench:
    """A checker, its clock, and a maker of proofs."""

    def __init__(self, *origins: str) -> None:
        self.clock = HandClock()
        self.nonces = Nonces(self.clock, 300.0)
        self.proofs = Proofs(self.nonces, origins or (ORIGIN,))

    def make(self, *, header=None, key: Any = KEY, algorithm="Ed25519", **changes) -> str:
        claims = {
            "jti": secrets.token_hex(8),
            "htm": "POST",
            "htu": f"{ORIGIN}/v1/poll",
            "iat": 0,
            "nonce": self.nonces.current(),
            **changes,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        protected = {"typ": "dpop+jwt", "alg": algorithm, "jwk": JWK, **(header or {})}
        return jws.serialize_compact(protected, json.dumps(claims), key, algorithms=[algorithm])

    def check(self, proof: str | None, method="POST", path="/v1/poll", token=None):
        return self.proofs.check(proof, method, path, token)

    def refusal(self, proof: str | None, **how) -> str:
        with pytest.raises(ProblemError) as refused:
            self.check(proof, **how)
        return refused.value.code


def test_a_good_proof_tells_whose_key_it_is():
    bench = Bench()
    proof = bench.check(bench.make())
    assert proof.thumbprint == KEY.thumbprint()
    assert not proof.nonce_due


def test_the_same_proof_passes_once():
    bench = Bench()
    proof = bench.make()
    bench.check(proof)
    assert bench.refusal(proof) == "bad-proof"


@pytest.mark.parametrize("age_s", [1.0, 299.0, 301.0, 599.0])
def test_a_replay_is_known_as_long_as_its_nonce_is_good(age_s):
    bench = Bench()
    proof = bench.make()
    bench.check(proof)
    bench.clock.time += age_s
    assert bench.refusal(proof) in ("bad-proof", "use-dpop-nonce")


def test_the_previous_nonce_passes_and_announces_the_next():
    bench = Bench()
    bench.clock.time = 1_000_200.0 // 300 * 300 + 1
    proof = bench.make()
    bench.clock.time += 300.0
    assert bench.check(proof).nonce_due


def test_a_nonce_of_two_periods_ago_is_refused():
    bench = Bench()
    proof = bench.make()
    bench.clock.time += 600.0
    assert bench.refusal(proof) == "use-dpop-nonce"


def test_a_nonce_of_another_start_is_refused():
    assert Bench().refusal(Bench().make()) == "use-dpop-nonce"


@pytest.mark.parametrize("iat", [-1e9, 0, 1.7e9, 1e12])
def test_the_workers_clock_does_not_matter(iat):
    bench = Bench()
    bench.check(bench.make(iat=iat))


@pytest.mark.parametrize(
    "changes",
    [
        {"htm": "GET"},
        {"htu": f"{ORIGIN}/v1/heartbeat"},
        {"htu": "https://elsewhere.example.org/v1/poll"},
        {"htu": "http://stoker.example.org/v1/poll"},
        {"htu": None},
        {"jti": None},
        {"jti": ""},
        {"jti": "x" * 200},
        {"iat": "yesterday"},
    ],
)
def test_a_proof_for_something_else_is_refused(changes):
    bench = Bench()
    assert bench.refusal(bench.make(**changes)) == "bad-proof"


def test_a_proxy_with_a_path_in_front_counts_as_here():
    bench = Bench("https://example.org/stoker/")
    bench.check(bench.make(htu="https://example.org/stoker/v1/poll"))


def test_a_token_needs_its_own_proof():
    bench = Bench()
    bench.check(bench.make(ath=token_hash("mine")), token="mine")
    assert bench.refusal(bench.make(ath=token_hash("other")), token="mine") == "bad-proof"
    assert bench.refusal(bench.make(), token="mine") == "bad-proof"


def test_a_foreign_signature_is_refused():
    bench = Bench()
    assert bench.refusal(bench.make(key=OKPKey.generate_key("Ed25519"))) == "bad-proof"


def test_other_algorithms_and_keys_are_refused():
    bench = Bench()
    symmetric = OctKey.import_key(b"x" * 32)
    curve = ECKey.generate_key("P-256")
    assert bench.refusal(bench.make(key=symmetric, algorithm="HS256")) == "bad-proof"
    assert bench.refusal(bench.make(key=curve, algorithm="ES256")) == "bad-proof"
    assert bench.refusal(bench.make(header={"typ": "JWT"})) == "bad-proof"
    assert bench.refusal(bench.make(header={"jwk": {**JWK, "d": "secret"}})) == "bad-proof"
    assert bench.refusal(bench.make(header={"jwk": {**JWK, "crv": "X25519"}})) == "bad-proof"


def test_one_key_has_one_thumbprint_however_it_is_spelled():
    bench = Bench()
    spelled = bench.make(header={"jwk": {**JWK, "kid": "me", "use": "sig", "x": JWK["x"] + "="}})
    assert bench.check(spelled).thumbprint == KEY.thumbprint()


def test_no_proof_and_an_endless_one_are_refused():
    bench = Bench()
    assert bench.refusal(None) == "bad-proof"
    assert bench.refusal("x" * (MAX_PROOF_BYTES + 1)) == "bad-proof"


@given(st.text(max_size=300) | st.from_regex(r"[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{0,60}"))
def test_garbage_is_refused_and_never_breaks_anything(text):
    assert Bench().refusal(text) == "bad-proof"


@given(st.data())
def test_a_proof_with_one_changed_character_is_refused(data):
    bench = Bench()
    proof = bench.make()
    # The last character of base64 may carry unused bits, so it is left alone.
    place = data.draw(st.integers(0, len(proof) - 2))
    letter = data.draw(st.sampled_from("ABab01-_"))
    changed = proof[:place] + letter + proof[place + 1 :]
    if changed != proof:
        assert bench.refusal(changed) in ("bad-proof", "use-dpop-nonce")

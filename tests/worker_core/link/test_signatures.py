"""Signed objects are obeyed only with the pinned key, and only by the worker they name."""

import base64

import pytest
from joserfc import jws
from joserfc.jwk import OctKey, OKPKey
from scripted_coordinator import ScriptedCoordinator

from worker_core.link.identity import BadCredential, WorkerKey
from worker_core.link.signatures import NotSignedForUs, PinnedCoordinator
from worker_core.wire.codec import encode
from worker_core.wire.signed import Offer, Revocation

KEY = WorkerKey.generate()


@pytest.fixture
def signer() -> ScriptedCoordinator:
    scripted = ScriptedCoordinator()
    scripted.thumbprint = KEY.thumbprint
    return scripted


@pytest.fixture
def pinned(signer: ScriptedCoordinator) -> PinnedCoordinator:
    return PinnedCoordinator(worker_id=signer.worker_id, thumbprint=KEY.thumbprint, jwks=signer.jwks)


def offer(signer: ScriptedCoordinator, **members: object) -> Offer:
    fields: dict[str, object] = {
        "worker_id": signer.worker_id,
        "thumbprint": KEY.thumbprint,
        "gen": 3,
        "attempt_id": "att",
        "job_id": "job",
        "epoch": 1,
        "kind": "rl-session",
        "spec_sha256": "0" * 64,
    }
    return Offer(**{**fields, **members})  # type: ignore[arg-type]


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_an_honest_offer_is_believed(signer: ScriptedCoordinator, pinned: PinnedCoordinator) -> None:
    assert pinned.offer(signer.sign(offer(signer)), 3).attempt_id == "att"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("worker_id", "wrk_other", "another|worker wrk_other"),
        ("thumbprint", "other", "another key"),
        ("gen", 2, "generation 2"),
    ],
)
def test_an_offer_for_another_worker_key_or_generation_is_refused(
    signer: ScriptedCoordinator, pinned: PinnedCoordinator, field: str, value: object, words: str
) -> None:
    with pytest.raises(NotSignedForUs, match=words):
        pinned.offer(signer.sign(offer(signer, **{field: value})), 3)


def test_another_key_a_weak_algorithm_or_no_signature_is_refused(
    signer: ScriptedCoordinator, pinned: PinnedCoordinator
) -> None:
    honest = offer(signer)
    stranger = signer.sign(honest, OKPKey.generate_key("Ed25519"))
    secret = OctKey.import_key("a shared secret that is long enough for it")
    hmac = jws.serialize_compact({"alg": "HS256"}, encode(honest), secret, algorithms=["HS256"])
    bare = _base64(b'{"alg":"none"}') + "." + _base64(encode(honest)) + "."
    head, body, signature = signer.sign(honest).split(".")
    for forged in (stranger, hmac, bare, f"{head}.{body}.", f"{head}.{body}{body}.{signature}", "", "x" * 300_000):
        with pytest.raises(NotSignedForUs):
            pinned.offer(forged, 3)


def test_an_offer_is_no_revocation_and_the_reverse(signer: ScriptedCoordinator, pinned: PinnedCoordinator) -> None:
    revocation = Revocation(worker_id=signer.worker_id, thumbprint=KEY.thumbprint, gen=3, revoked_at="today", by="ada")
    assert pinned.revocation(signer.sign(revocation)).by == "ada"
    with pytest.raises(NotSignedForUs):
        pinned.revocation(signer.sign(offer(signer)))
    with pytest.raises(NotSignedForUs):
        pinned.offer(signer.sign(revocation), 3)


def test_a_key_comes_back_from_its_secret_and_the_secret_fits_any_store() -> None:
    again = WorkerKey.from_secret(KEY.secret)
    assert again.thumbprint == KEY.thumbprint
    assert len(KEY.secret) < 400
    assert "d" not in KEY.public_jwk


@pytest.mark.parametrize("text", ["", "{}", '{"x":"a","d":"b"}', "null", "\x00", '{"x":1,"d":2}'])
def test_anything_else_in_the_store_is_told_as_such(text: str) -> None:
    with pytest.raises(BadCredential):
        WorkerKey.from_secret(text)

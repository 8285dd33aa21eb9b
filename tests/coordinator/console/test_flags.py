"""What went wrong in a training stands on the page of its session, as text and as marks at the step."""

from typing import Any

import httpx


def flag(step: int, **changes: object) -> dict[str, object]:
    return {"t": "flag", "ts": 1.0, "step": step, "flag": "nan", "text": "the loss is NaN", "action": "warn", **changes}


def test_a_session_says_what_went_wrong_where_and_what_was_done(session: Any, client: httpx.Client) -> None:
    page = f"/sessions/{session.job_id}"
    assert "Training went wrong" not in client.get(page).text
    session.metric(1000, train__loss=0.5)
    nasty = flag(1204, flag="gradient", text="<b>steep</b>", action="rollback")
    session.send(nasty, *(flag(step) for step in range(2000, 2006)))
    text = client.get(page).text
    assert "step 2,005: The loss is NaN." in text
    assert "2 earlier ones are in the log." in text
    marks = client.get(f"{page}/series", params={"key": "train/loss"}).json()["flags"]
    assert marks[:2] == [[1204, "gradients"], [2000, "NaN"]]
    assert "&lt;b&gt;steep" in client.get(f"{page}/logs").text

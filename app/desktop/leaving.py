"""The one way out: what Quit does while a job runs, and what closing the last window means without a tray."""

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.desktop.control.client import LOST_LINK, NOT_CONNECTED, ControlClient
from app.desktop.control.store import WorkerStore
from app.desktop.prefs import PrefsFile
from app.desktop.presenter.answers import CLOSE, QUIT, REMEMBERED_CLOSE, REMEMBERED_QUIT, Answer
from app.desktop.presenter.quitting import QuitChoice, QuitPlan, chosen, plan_quit, plan_unanswered
from worker_core.control.messages import ErrorBody, QuitArgs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from app.desktop.windows.dialogs import Question


class Leaving(QObject):
    """Decides how the desktop leaves and tells the core before it does."""

    done = Signal()
    """Nothing more is to be done: end the process."""
    refused = Signal(str, str)
    remembered = Signal(str)
    """What is remembered about Quit and about closing the window, in words; empty when both are asked."""

    def __init__(self, parent: QObject, client: ControlClient, store: WorkerStore, prefs: PrefsFile) -> None:
        super().__init__(parent)
        self._client = client
        self._store = store
        self._prefs = prefs
        self._question: Question | None = None
        store.changed.connect(self._on_store)

    @Slot()
    def ask(self) -> None:
        """Quit, with a question first when a job runs and no answer is remembered."""
        plan = plan_quit(self._store.situation, self._prefs.prefs.quit_choice)
        if plan.ask is None:
            self._leave(plan)
        elif self._question is None:
            self._open_question(plan.ask)
        else:
            self._question.open()

    def tell_remembered(self) -> None:
        """Tell which answers are remembered."""
        prefs = self._prefs.prefs
        words = (REMEMBERED_QUIT.get(prefs.quit_choice or ""), REMEMBERED_CLOSE.get(prefs.close_choice or ""))
        self.remembered.emit(" ".join(sentence for sentence in words if sentence))

    @Slot()
    def forget_choice(self) -> None:
        """Ask again from now on."""
        self._prefs.change(quit_choice=None, close_choice=None)
        self.tell_remembered()

    def ask_about_closing(self, window: QWidget) -> None:
        """A window that is the only sign of Stoker was closed: ask once whether the worker stays."""
        if self._prefs.prefs.close_choice == "quit":
            self.ask()
        elif self._prefs.prefs.close_choice is None:
            question = _question("Keep Stoker running?", CLOSE.text, CLOSE.answers, dismiss="")
            question.answered.connect(self._on_closing_answered)
            question.rejected.connect(window.show)
            question.open()

    def _open_question(self, job: str) -> None:
        words = QUIT.text.format(job=job)
        self._question = _question("A job is training", words, QUIT.answers, remember="&Remember this answer")
        self._question.answered.connect(self._on_answered)
        self._question.finished.connect(self._on_question_gone)
        self._question.open()

    @Slot()
    def _on_store(self) -> None:
        """Leave when the job that Quit asks about is stopped or over: nothing is left to be decided."""
        plan = plan_unanswered(self._store.situation) if self._question is not None else None
        if plan is not None and self._question is not None:
            self._question.reject()
            self._leave(plan)

    @Slot(int)
    def _on_question_gone(self, result: int) -> None:
        self._question = None

    @Slot(str, bool)
    def _on_answered(self, choice: QuitChoice, remember: bool) -> None:
        if remember:
            self._prefs.change(quit_choice=choice)
            self.tell_remembered()
        self._leave(chosen(choice))

    @Slot(str, bool)
    def _on_closing_answered(self, choice: str, remember: bool) -> None:
        self._prefs.change(close_choice=choice)
        self.tell_remembered()
        if choice == "quit":
            self.ask()

    def _leave(self, plan: QuitPlan) -> None:
        if plan.request is None:
            self.done.emit()
            return
        call = self._client.request("quit", QuitArgs(how=plan.request))
        call.succeeded.connect(self.done)
        call.failed.connect(self._on_failed)

    @Slot(object)
    def _on_failed(self, error: ErrorBody) -> None:
        # A worker that is gone before its answer arrives is what was asked for.
        if error in (LOST_LINK, NOT_CONNECTED):
            self.done.emit()
            return
        self.refused.emit("The worker was not ended", error.text)


def _question(
    title: str, text: str, answers: tuple[Answer, ...], *, remember: str = "", dismiss: str = "&Cancel"
) -> "Question":
    # Dialogs are loaded when one is opened; a resting tray does without them.
    from app.desktop.windows.dialogs import Question

    return Question(None, title, text, answers, remember=remember, dismiss=dismiss)

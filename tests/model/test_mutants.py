"""Each rule of the protocol is needed: without it, the explorer finds a broken promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backfill_core.errors import TargetError
from backfill_core.ledger import CONFIRMED, OPEN
from backfill_core.protocol import comparing, sealing, settling, taking, writing
from tests.model import actors
from tests.model.explorer import Broken, explore
from tests.model.ledger import SimulatedLedger
from tests.model.promises import check, put_right
from tests.model.target import SimulatedTarget
from tests.model.test_protocol import FOR_LONG, SCENARIOS, begin

if TYPE_CHECKING:
    from collections.abc import Callable

    Break = Callable[[pytest.MonkeyPatch], None]

MUTANTS: dict[str, tuple[Break, str]] = {}


def mutant(scenario: str) -> Callable[[Break], Break]:
    def add(broken: Break) -> Break:
        MUTANTS[broken.__name__] = (broken, scenario)
        return broken

    return add


@mutant("first writes of two owners")
def rows_are_not_locked(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(actors.ROWS_ARE_LOCKED, "", False)


@mutant("a retry beside a first try")
def no_fence_is_raised(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedTarget, "raised", lambda target, key, _: target.side(key).fence)


@mutant("a retry beside a first try, and a settler")
def the_fence_is_set_also_lower(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedTarget, "raised", lambda *arguments: arguments[2])


@mutant("a ledger from a backup under a writer and another")
def numbers_are_taken_from_the_ledger_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(taking, "next_number", lambda row, _: row.number + 1)


@mutant("a retry beside a first try")
def the_intents_of_a_key_overwrite_each_other(patch: pytest.MonkeyPatch) -> None:
    keep = SimulatedLedger.keep_intents

    def upsert(ledger: SimulatedLedger, dataset: str, page: Any) -> None:
        for noted in page.noted:
            for place in [place for place in ledger.all_intents if place[2] == noted.key]:
                del ledger.all_intents[place]
        keep(ledger, dataset, page)

    patch.setattr(SimulatedLedger, "keep_intents", upsert)


@mutant("a set whose answers get lost, and a settler")
def the_intents_are_not_read_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writing, "read_back", lambda *_: None)


@mutant("a set, and two settlers")
def a_settler_looks_before_it_fences(patch: pytest.MonkeyPatch) -> None:
    def look_and_fence(place: Any, fences: Any, ledger: str, former: Any) -> Any:
        sides = place.target.look(sorted(fences))
        fenced = place.target.fence(fences, ledger, place.wait, former=former)
        return {key: sides.get(key, fenced[key]) for key in fences}

    patch.setattr(settling, "fence_and_look", look_and_fence)


@mutant("a retry beside a first try")
def a_confirm_does_not_ask_for_the_state_of_the_intent(patch: pytest.MonkeyPatch) -> None:
    def close(page: Any, token: str, sides: Any) -> dict[str, str]:
        for intent in page.intents(token):
            if intent.key in sides:
                settling.close_one(page, intent, sides[intent.key])
        page.free(token, page.keys)
        return {intent.key: intent.state for intent in page.intents(token)}

    patch.setattr(settling, "close", close)


@mutant("a set, and two settlers")
def a_settler_takes_every_intent_for_failed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settling, "has_landed", lambda *_: False)


@mutant("a sealer and a writer")
def a_seal_sets_no_mark(patch: pytest.MonkeyPatch) -> None:
    def mark(place: Any, token: str, kind: str, intents: Any, *_: Any) -> Any:
        seen = dict(place.target.look([intent.key for intent in intents]))
        return seen, seen

    patch.setattr(sealing, "mark", mark)


@mutant("a retry beside a first try")
def a_take_ignores_open_intents(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(taking, "opened_before", lambda *_: set())


@mutant("a sealer and a writer")
def an_intent_does_not_look_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writing, "look_again", lambda *_: None)


def compare_without(patch: pytest.MonkeyPatch, field: str) -> None:
    """Let publications compare all but one field of the side row."""
    compare = SimulatedTarget.is_as
    patch.setattr(
        SimulatedTarget,
        "is_as",
        lambda target, side, there: compare(
            target, side._replace(**{field: 0 if field == "fence" else getattr(there, field)}), there
        ),
    )


@mutant("a ledger from a backup under a writer and another")
def a_publication_does_not_compare_the_token(patch: pytest.MonkeyPatch) -> None:
    compare_without(patch, "token")


@mutant("a retry beside a first try")
def a_publication_does_not_compare_the_fence(patch: pytest.MonkeyPatch) -> None:
    compare_without(patch, "fence")


@mutant("a ledger from a backup under a sealer and a writer")
def a_publication_does_not_compare_the_mark(patch: pytest.MonkeyPatch) -> None:
    compare_without(patch, "mark")


@mutant("a ledger from a backup, and a writer who still has the former one")
def a_publication_does_not_compare_the_ledger(patch: pytest.MonkeyPatch) -> None:
    compare = SimulatedTarget.compare

    def compare_all_but_the_ledger(target: SimulatedTarget, expected: Any, *_: Any) -> None:
        ledgers = {target.side(key).ledger for key in expected}
        compare(target, expected, "", frozenset(ledger for ledger in ledgers if ledger))

    patch.setattr(SimulatedTarget, "compare", compare_all_but_the_ledger)


@mutant("a set whose answers get lost, and a settler")
def no_answer_is_taken_for_no(patch: pytest.MonkeyPatch) -> None:
    def give_up(*_: Any) -> None:
        raise writing._Settled(TargetError("no answer"))

    patch.setattr(writing, "_settle_own", give_up)


@mutant("a set whose answers get lost, and a settler")
def no_answer_is_taken_for_yes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writing, "_settle_own", lambda *arguments: dict.fromkeys(arguments[2].measured, "now"))


@mutant("a sealer and a writer")
def a_seal_ignores_open_intents(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sealing, "clear_open_intents", lambda *_: None)
    patch.setattr(sealing, "refuse_open_intents", lambda *_: None)


@mutant("an amender and an unsealer")
def a_correction_ignores_open_intents(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sealing, "clear_open_intents", lambda *_: None)
    patch.setattr(sealing, "refuse_open_intents", lambda *_: None)


@mutant("a sealer, an unsealer who takes it for dead, and a writer")
def a_mark_does_not_compare_the_fence(patch: pytest.MonkeyPatch) -> None:
    may = SimulatedTarget.may_mark
    patch.setattr(
        SimulatedTarget,
        "may_mark",
        lambda target, key, mark, there, ledger: may(target, key, mark, there._replace(number=10**9), ledger),
    )


@mutant("a retry beside a first try")
def an_earlier_try_may_come_after_a_later_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(taking, "refuse_earlier_try", lambda *_: None)


@mutant("a retry beside a first try")
def each_confirm_is_written_into_the_history(patch: pytest.MonkeyPatch) -> None:
    def close(page: Any, token: str, sides: Any) -> dict[str, str]:
        for intent in page.intents(token):
            if intent.key in sides and intent.state in (OPEN, CONFIRMED):
                settling.close_one(page, intent, sides[intent.key])
        page.free(token, page.keys)
        return {intent.key: intent.state for intent in page.intents(token)}

    patch.setattr(settling, "close", close)


@mutant("a ledger from a backup under a writer and another")
def a_take_does_not_compare_ledger_and_target(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(taking, "disagreement", lambda *_: None)
    patch.setattr(comparing, "disagreement", lambda *_: None)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_protocol_without_the_rule_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, scenario = MUTANTS[name]
    working, before, faults = (SCENARIOS | FOR_LONG)[scenario]
    world = begin(before)
    broken(monkeypatch)

    with pytest.raises(Broken) as found:
        explore(world, list(working.items()), check, put_right, faults=faults)

    print(f"{name}: {found.value.why}")

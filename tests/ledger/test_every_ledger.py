"""What a guarded dataset does, the same with every ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backfill_core.claims import Caller
from backfill_core.errors import (
    AuditError,
    DriftError,
    HeldError,
    LimitError,
    NotAdoptedError,
    NotSealedError,
    SealedError,
    StoppedError,
    UsageError,
)
from backfill_core.guarded import Guarded, Wish
from backfill_core.ledger import OPEN, PUBLISH
from backfill_core.protocol import comparing
from backfill_core.protocol.judging import EMPTY, GROWTH, SHRINK
from tests.ledger.conftest import DAY, ME, NEXT, OTHER, THIRD, guarded, put
from tests.model.promises import DATASET

if TYPE_CHECKING:
    from backfill_core.ledger import Ledger
    from tests.model.target import SimulatedTarget


def test_a_write_publishes_all_its_keys_and_is_remembered(orders: Guarded, target: SimulatedTarget) -> None:
    answer = orders.write([DAY, NEXT], put(1, 2), ME, "first load")

    assert [one["key"] for one in answer["published"]] == [DAY, NEXT]
    assert target.partitions == {DAY: (1, 2), NEXT: (1, 2)}
    [line] = orders.history(DAY, DAY)
    assert (line["what"], line["owner"], line["run"], line["reason"]) == ("publish", "me", "run-1", "first load")
    assert line["after"] == {"rows": 2, "orders": "2", "amount": "3"}
    assert line["token"] == target.sides[DAY].token
    assert orders.status()["partitions"][0]["claimed_by"] == []


def test_a_second_write_says_what_it_took_the_place_of(orders: Guarded) -> None:
    first = orders.write([DAY], put(1), ME)

    orders.write([DAY], put(1, 5), ME, "five came late")

    line = orders.history()[-1]
    assert (line["before"], line["after"]) == (
        {"rows": 1, "orders": "1", "amount": "1"},
        {"rows": 2, "orders": "2", "amount": "6"},
    )
    assert line["token"] != first["token"]


def test_sealed_and_held_keys_are_left_out_and_said(orders: Guarded, target: SimulatedTarget) -> None:
    orders.write([DAY, NEXT, THIRD], put(1), ME)
    orders.seal([DAY], ME, "sent")
    orders.claim([NEXT], Caller("", person="bob"))

    answer = orders.write([DAY, NEXT, THIRD], put(2), ME)

    assert answer["skipped"] == [[DAY, "sealed"], [NEXT, "claimed_by:bob"]]
    assert target.partitions == {DAY: (1,), NEXT: (1,), THIRD: (2,)}


def test_a_reservation_lets_in_its_owners_runs_and_nobody_else(orders: Guarded) -> None:
    claim = orders.claim([DAY], Caller("", person="me"))

    assert orders.write([DAY], put(1), OTHER)["skipped"] == [[DAY, "claimed_by:me"]]
    assert orders.write([DAY], put(1), ME)["skipped"] == []
    assert orders.release(claim=claim["claim"])["released"] == [DAY]
    assert orders.write([DAY], put(2), OTHER)["skipped"] == []


def test_a_reservation_of_all_or_none_takes_none_where_one_is_held(orders: Guarded, ledger: Ledger) -> None:
    orders.claim([NEXT], Caller("", person="bob"))

    answer = orders.claim([DAY, NEXT], Caller("", person="me"), whole=True)

    assert (answer["claimed"], answer["denied"]) == ([], [[NEXT, "bob"]])
    assert [claim.owner for claim in ledger.claims(DATASET.name)] == ["bob"]


def test_what_was_entered_beneath_a_reservation_ends_with_it(orders: Guarded, target: SimulatedTarget) -> None:
    claim = orders.claim([DAY], Caller("", person="me"))

    def let_go(partition: object) -> None:
        put(1)(partition)  # type: ignore[arg-type]
        orders.release(claim=claim["claim"])

    with pytest.raises(Exception, match="taken over by another attempt, or its claim was given back"):
        orders.write([DAY], let_go, ME)

    assert target.partitions == {}
    assert orders.status()["partitions"][0]["claimed_by"] == []


def test_a_refused_result_changes_nothing_and_is_kept_as_a_failure(orders: Guarded, target: SimulatedTarget) -> None:
    orders.write([DAY], put(1), ME)

    with pytest.raises(LimitError, match="the result is empty, and 1 rows are published"):
        orders.write([DAY], put(), ME)

    [row] = orders.status()["partitions"]
    assert (row["failure"], row["claimed_by"]) == ("the result is empty, and 1 rows are published", [])
    assert target.partitions == {DAY: (1,)}
    assert [line["what"] for line in orders.history()] == ["publish", "refused"]


def test_a_publication_ends_a_failure(orders: Guarded, ledger: Ledger) -> None:
    with pytest.raises(LimitError):
        orders.write([DAY], put(), ME)
    assert ledger.counts()[0].failed == 1

    orders.write([DAY], put(1), ME)

    assert orders.status()["partitions"][0]["failure"] is None
    assert ledger.counts()[0].failed == 0


def test_rows_of_another_key_refuse_the_whole(orders: Guarded, target: SimulatedTarget) -> None:
    with pytest.raises(AuditError, match="1 rows of other keys, such as 2026-03-01"):
        orders.write([DAY], lambda partition: partition.write.put({DAY: (1,), "2026-03-01": (2,)}), ME)  # type: ignore[attr-defined]

    assert target.partitions == {}


def test_a_table_that_holds_rows_is_adopted_or_overwritten_in_so_many_words(
    orders: Guarded, target: SimulatedTarget
) -> None:
    target.partitions = {DAY: (7,), NEXT: (8,)}
    with pytest.raises(NotAdoptedError, match="`adopt` them as they are"):
        orders.write([DAY], put(1), ME)

    orders.adopt([DAY], ME, "it was there")
    orders.write([NEXT], put(1), ME, wish=Wish(overwrite=True))

    assert target.partitions == {DAY: (7,), NEXT: (1,)}
    assert [line["what"] for line in orders.history(DAY, DAY)] == ["refused", "adopt"]
    assert orders.history(NEXT, NEXT)[0]["said"] == "1 rows that were not adopted"


def test_drift_is_refused_or_overwritten_with_before_and_after(ledger: Ledger, target: SimulatedTarget) -> None:
    orders = guarded(ledger, target)
    orders.write([DAY], put(1), ME)
    target.partitions[DAY] = (9,)
    with pytest.raises(DriftError, match="amount was published as 1 and is 9"):
        orders.write([DAY], put(2), ME)

    guarded(ledger, target, on_drift="overwrite").write([DAY], put(2), ME)

    line = orders.history()[-1]
    assert line["said"] == "amount was published as 1 and is 9"
    assert line["before"] == {"rows": 1, "orders": "1", "amount": "9"}


def test_drift_is_found_also_where_the_sums_are_kept(ledger: Ledger, target: SimulatedTarget) -> None:
    orders = guarded(ledger, target, digest="always")
    orders.write([DAY], put(1, 4), ME)
    target.partitions[DAY] = (2, 3)

    found = orders.drift()

    assert found["drift"] == {DAY: "the figures are those that were published, but the rows are others"}
    assert ledger.counts()[0].drifted == 1


def test_a_quiet_result_publishes_nothing_unless_asked_to(ledger: Ledger, target: SimulatedTarget) -> None:
    orders = guarded(ledger, target, digest="always")
    first = orders.write([DAY, NEXT], put(1), ME)

    quiet = orders.write([DAY, NEXT], put(1), ME)
    asked = orders.write([DAY], put(1), ME, wish=Wish(always=True))

    assert (quiet["published"], quiet["quiet"]) == ([], [DAY, NEXT])
    assert [one["key"] for one in asked["published"]] == [DAY]
    assert target.sides[NEXT].token == first["token"]
    assert ledger.claims(DATASET.name) == []


def test_of_a_set_only_what_changed_is_published(ledger: Ledger, target: SimulatedTarget) -> None:
    orders = guarded(ledger, target, digest="always")
    orders.write([DAY, NEXT], put(1), ME)

    answer = orders.write([DAY, NEXT], lambda partition: partition.write.put({DAY: (1,), NEXT: (2,)}), ME)  # type: ignore[attr-defined]

    assert ([one["key"] for one in answer["published"]], answer["quiet"]) == ([NEXT], [DAY])
    assert target.partitions == {DAY: (1,), NEXT: (2,)}


def test_keys_whose_fingerprint_is_as_it_was_are_not_computed(orders: Guarded) -> None:
    orders.write([DAY, NEXT], put(1), ME, fingerprints={DAY: "a", NEXT: "a"})

    answer = orders.write([DAY, NEXT], put(2), ME, fingerprints={DAY: "a", NEXT: "b"})

    assert (answer["unchanged"], [one["key"] for one in answer["published"]]) == ([DAY], [NEXT])


def test_a_seal_holds_and_what_comes_late_is_written_beside(orders: Guarded, target: SimulatedTarget) -> None:
    orders.write([DAY], put(1), ME)
    assert orders.seal([DAY], ME, "sent")["new"] == [DAY]
    assert orders.seal([DAY], ME)["new"] == []

    orders.amend(DAY, put(1, 5), ME, "five came late")

    [line] = orders.statement()["partitions"]
    assert (line["published"]["amount"], line["corrected"]["amount"], line["corrections"]) == ("1", "6", 1)
    assert target.partitions == {DAY: (1,)}
    with pytest.raises(SealedError), orders.replacing([DAY], ME):
        pytest.fail("the block was run")


@pytest.mark.parametrize(
    ("amounts", "allow"),
    [((), EMPTY), ((1,), SHRINK), ((9,) * 7, GROWTH)],
    ids=["emptied", "shrunk", "grown"],
)
def test_a_correction_has_the_limits_of_a_write_and_they_count_from_what_was_last_said(
    ledger: Ledger, target: SimulatedTarget, amounts: tuple[int, ...], allow: str
) -> None:
    orders = guarded(ledger, target, max_shrink=0.5, max_growth=1.0)
    orders.write([DAY], put(1), ME)
    orders.seal([DAY], ME, "sent")
    orders.amend(DAY, put(1, 5, 6), ME, "two came late", Wish(allow=frozenset({GROWTH})))

    with pytest.raises(LimitError):
        orders.amend(DAY, put(*amounts), ME, "late")
    assert orders.statement()["partitions"][0]["corrections"] == 1

    orders.amend(DAY, put(*amounts), ME, "late", Wish(allow=frozenset({allow})))
    assert orders.statement()["partitions"][0]["corrected"]["rows"] == len(amounts)


def test_a_correction_with_rows_of_another_key_is_refused(orders: Guarded) -> None:
    orders.write([DAY], put(1), ME)
    orders.seal([DAY], ME, "sent")

    with pytest.raises(AuditError, match=f"1 rows of other keys, such as {NEXT}"):
        orders.amend(DAY, lambda partition: partition.write.put({DAY: (2,), NEXT: (1,)}), ME, "late")  # type: ignore[attr-defined]

    assert orders.statement()["partitions"][0]["corrections"] == 0


def test_the_history_has_each_correction_between_the_seals_with_who_and_why(orders: Guarded) -> None:
    orders.write([DAY], put(1), ME)
    orders.seal([DAY], ME, "sent")
    orders.amend(DAY, put(1, 5), OTHER, "five came late")
    orders.amend(DAY, put(1, 5, 6), OTHER, "six came later")
    orders.unseal([DAY], ME, "send it again")

    lines = orders.history()

    assert [(line["what"], line["owner"], line["reason"]) for line in lines if line["reason"]] == [
        ("seal", "me", "sent"),
        ("amend", "other", "five came late"),
        ("amend", "other", "six came later"),
        ("unseal", "me", "send it again"),
    ]
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert [(line["before"], line["after"]) for line in lines if line["what"] == "amend"] == [
        ({"rows": 1, "orders": "1", "amount": "1"}, {"rows": 2, "orders": "2", "amount": "6"}),
        ({"rows": 1, "orders": "1", "amount": "1"}, {"rows": 3, "orders": "3", "amount": "12"}),
    ]


def test_what_was_never_sealed_is_not_amended(orders: Guarded) -> None:
    orders.write([DAY], put(1), ME)

    with pytest.raises(NotSealedError):
        orders.amend(DAY, put(2), ME, "late")


def test_each_seal_is_a_version_that_stays(orders: Guarded, ledger: Ledger) -> None:
    for amount in (1, 2):
        orders.write([DAY], put(amount), ME)
        orders.seal([DAY], ME, f"report {amount}")
        orders.unseal([DAY], OTHER, f"report {amount} was wrong")

    seals = ledger.seals(DATASET.name)
    assert [(seal.version, seal.reason, seal.unsealed_by, seal.unsealed_why) for seal in seals] == [
        (1, "report 1", "other", "report 1 was wrong"),
        (2, "report 2", "other", "report 2 was wrong"),
    ]
    assert [seal.measured.measures["amount"] for seal in seals if seal.measured] == ["1", "2"]


def test_nothing_is_sealed_that_was_not_published(orders: Guarded) -> None:
    with pytest.raises(NotAdoptedError, match="nothing was published"):
        orders.seal([DAY], ME)


def test_a_statement_as_of_a_moment_tells_what_readers_saw_then(orders: Guarded) -> None:
    first = orders.write([DAY], put(1), ME)["published"][0]["published_at"]
    second = orders.write([DAY], put(2), ME)["published"][0]["published_at"]

    assert orders.statement(as_of=first)["partitions"][0]["published"]["amount"] == "1"
    assert orders.statement(as_of=second)["partitions"][0]["published"]["amount"] == "2"
    assert orders.statement(as_of="2020")["partitions"] == []


def test_a_set_is_told_by_its_keys_and_counts_move_with_it(orders: Guarded, ledger: Ledger) -> None:
    orders.write([DAY, NEXT], put(1), ME)
    orders.seal([DAY], ME)
    orders.claim([NEXT, THIRD], ME)

    [counts] = ledger.counts()

    assert counts[:8] == (DATASET.name, 3, 2, 2, 1, 0, 0, 0)
    assert (counts.oldest, counts.newest, counts.sealed_up_to) == (DAY, NEXT, DAY)
    assert (counts.latest_at, counts.latest_by) == (ledger.rows(DATASET.name, NEXT, NEXT)[0].confirmed_at, "me")
    assert counts.checked_at == counts.latest_at


def test_what_is_late_is_kept_until_it_is_corrected_or_unsealed(orders: Guarded, ledger: Ledger) -> None:
    orders.write([DAY, NEXT, THIRD], put(1), ME)
    orders.seal([DAY, NEXT], ME)

    orders.late(put(1, 4))

    told = {row.key: (row.late, row.compared_at is None) for row in ledger.rows(DATASET.name)}
    words = "rows was 1, is 2; orders was 1, is 2; amount was 1, is 5"
    assert told == {DAY: (words, False), NEXT: (words, False), THIRD: (None, True)}
    assert ledger.counts()[0].late == 2
    assert ledger.counts()[0].checked_at == ledger.rows(DATASET.name)[0].compared_at

    orders.amend(DAY, put(1, 4), ME, "came late")
    orders.unseal([NEXT], ME, "a mistake")

    assert [row.late for row in ledger.rows(DATASET.name)] == [None, None, None]
    assert ledger.counts()[0].late == 0
    assert orders.late(put(1, 4))["late"] == []


def test_a_correction_that_came_while_the_source_was_measured_is_not_called_late(
    orders: Guarded, ledger: Ledger
) -> None:
    orders.write([DAY], put(1), ME)
    orders.seal([DAY], ME)

    measured_before = ledger.rows(DATASET.name)
    orders.amend(DAY, put(1, 4), ME, "came late")
    comparing.note_late(orders._place, measured_before, {DAY: "amount was 1, is 5"})

    assert ledger.rows(DATASET.name)[0].late is None


def test_who_reserved_and_who_gave_back_is_in_the_history_with_a_reason(orders: Guarded) -> None:
    bob = Caller("", person="bob")
    orders.claim([DAY], bob, "the source is being mended")
    orders.claim([NEXT], bob)

    orders.release(owner="bob")

    lines = [(line["key"], line["what"], line["owner"], line["reason"]) for line in orders.history()]
    assert lines == [(DAY, "claim", "bob", "the source is being mended")]


def test_a_dead_attempt_is_settled_by_the_next_try_of_its_task(orders: Guarded, target: SimulatedTarget) -> None:
    leave_open(orders, target, published=True)

    orders.write([DAY], put(3), ME._replace(try_number=2))

    amounts = [line["after"] and line["after"]["amount"] for line in orders.history()]
    assert amounts == ["1", "2", "3"]


@pytest.mark.parametrize("published", [True, False])
def test_a_dead_attempt_is_settled_by_force_alone(
    orders: Guarded, target: SimulatedTarget, ledger: Ledger, published: bool
) -> None:
    leave_open(orders, target, published=published)

    asked = orders.settle()
    forced = orders.settle(force=True)

    assert asked == {"dataset": DATASET.name, "settled": [], "open": [[DAY, "me, run-1, load"]], "released": []}
    assert forced["settled"] == [[DAY, "confirmed" if published else "withdrawn"]]
    assert (ledger.intents(DATASET.name), ledger.claims(DATASET.name)) == ([], [])
    assert orders.status()["partitions"][0]["figures"] == {
        "rows": 1,
        "orders": "1",
        "amount": "2" if published else "1",
    }


def test_an_attempt_of_another_run_that_airflow_says_is_over_is_settled_by_the_next(
    orders: Guarded, target: SimulatedTarget, ledger: Ledger
) -> None:
    leave_open(orders, target, published=True)
    knowing = Guarded(DATASET, ledger, target, stale=lambda claim: claim.run == "run-1", wait=0)

    assert orders.write([DAY], put(3), OTHER)["skipped"] == [[DAY, "claimed_by:me, run-1, load"]]
    assert knowing.write([DAY], put(3), OTHER)["skipped"] == []

    assert [line["run"] for line in orders.history()] == ["run-1", "run-1", "run-2"]


def test_nothing_is_sealed_or_amended_while_somebody_publishes(orders: Guarded, target: SimulatedTarget) -> None:
    leave_open(orders, target, published=True)

    with pytest.raises(HeldError, match="is being changed by me, run-1, load"):
        orders.seal([DAY], OTHER)


def test_an_earlier_try_that_wakes_up_after_a_later_one_writes_nothing(orders: Guarded) -> None:
    orders.write([DAY], put(2), ME._replace(try_number=2))

    with pytest.raises(Exception, match="was taken by try 2"):
        orders.write([DAY], put(1), ME)

    assert len(orders.history()) == 1


def test_a_restored_ledger_stops_what_it_does_not_know(orders: Guarded, target: SimulatedTarget) -> None:
    orders.write([DAY, NEXT], put(1), ME)
    target.sides[DAY] = target.sides[DAY]._replace(token="of-a-lost-hour")  # noqa: S106

    with pytest.raises(StoppedError, match="`adopt` the key"):
        orders.write([DAY], put(2), ME)
    orders.ledger.renew()
    unknown = orders.restored()["unknown"]
    orders.adopt([DAY], ME, "looked at it")

    assert list(unknown) == [DAY]
    assert orders.write([DAY, NEXT], put(2), ME)["skipped"] == []


def test_after_a_restore_every_write_stops_until_its_key_was_looked_at(orders: Guarded, ledger: Ledger) -> None:
    orders.write([DAY], put(1), ME)
    ledger.renew()

    with pytest.raises(StoppedError, match="`restored` looks at each key"):
        orders.write([DAY], put(2), ME)
    orders.restored()

    assert orders.write([DAY], put(2), ME)["skipped"] == []


def test_a_mark_that_the_ledger_lost_is_taken_over_by_a_new_seal(orders: Guarded, target: SimulatedTarget) -> None:
    orders.write([DAY], put(1), ME)
    target.sides[DAY] = target.sides[DAY]._replace(mark="of-a-lost-hour")
    with pytest.raises(StoppedError, match="`seal` the key again"):
        orders.write([DAY], put(2), ME)

    orders.seal([DAY], ME, "sent, in the lost hour")

    assert orders.write([DAY], put(2), ME)["skipped"] == [[DAY, "sealed"]]


def test_a_changed_zone_is_refused_and_changed_measures_are_a_new_version(
    ledger: Ledger, target: SimulatedTarget
) -> None:
    guarded(ledger, target).write([DAY], put(1), ME)

    with pytest.raises(UsageError):
        guarded(ledger, target, timezone="Europe/Warsaw")
    guarded(ledger, target, measures={"orders": "count(*)"}).write([DAY], put(2), ME)

    assert ledger.rows(DATASET.name)[0].version == 2


def test_two_datasets_in_one_ledger_know_nothing_of_each_other(ledger: Ledger, target: SimulatedTarget) -> None:
    one, other = guarded(ledger, target), guarded(ledger, type(target)(), name="shop.refunds")
    one.write([DAY], put(1), ME)
    one.seal([DAY], ME)

    assert other.write([DAY], put(2), OTHER)["skipped"] == []
    assert [counts.sealed for counts in ledger.counts()] == [1, 0]


def test_history_is_forgotten_by_command_but_the_last_publication_and_no_token(orders: Guarded, ledger: Ledger) -> None:
    for amount in (1, 2, 3):
        orders.write([DAY], put(amount), ME)
    first = orders.history()[0]["token"] or ""

    gone = ledger.forget(DATASET.name, "9999")

    assert (gone, [line["after"] and line["after"]["amount"] for line in orders.history()]) == (2, ["3"])
    assert [intent.token for intent in ledger.find(DATASET.name, first)] == [first]


def test_a_plan_tells_what_a_write_would_do_and_writes_nothing(orders: Guarded, target: SimulatedTarget) -> None:
    orders.write([DAY, NEXT], put(1), ME)
    orders.seal([NEXT], ME)
    before = target.content()

    plan = orders.plan([DAY, NEXT, THIRD], ME, put(2))

    assert [(one["key"], one["action"], one["reason"]) for one in plan["partitions"]] == [
        (DAY, "change", "moved"),
        (NEXT, "skipped", "sealed"),
        (THIRD, "change", "new"),
    ]
    assert target.content() == before
    assert orders.plan([DAY], ME)["unknown"] == 1


def test_sealed_keys_whose_source_moved_on_are_late_until_they_are_corrected(orders: Guarded) -> None:
    orders.write([DAY, NEXT], put(1), ME)
    orders.seal([DAY], ME)
    assert orders.late(put(1))["late"] == []

    late = orders.late(put(2))
    orders.amend(DAY, put(2), ME, "late")

    assert [one["key"] for one in late["late"]] == [DAY]
    assert orders.late(put(2))["late"] == []


def test_a_block_that_raises_leaves_everything_as_it_was(orders: Guarded, target: SimulatedTarget) -> None:
    orders.write([DAY], put(1), ME)

    def fail_half_way() -> None:
        with orders.replacing([DAY], ME) as partition:
            put(2)(partition)
            raise ZeroDivisionError("division by zero")

    with pytest.raises(ZeroDivisionError):
        fail_half_way()

    assert (target.partitions, target.staged) == ({DAY: (1,)}, {})
    assert orders.status()["partitions"][0]["failure"] == "division by zero"


def leave_open(orders: Guarded, target: SimulatedTarget, *, published: bool) -> None:
    """Publish 1; then die with an intent of publishing 2, before or after the commit in the target."""
    orders.write([DAY], put(1), ME)
    publish = type(target).publish

    def die(*arguments: object) -> object:
        if published:
            publish(target, *arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    target.publish = die  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        orders.write([DAY], put(2), ME)
    del target.publish
    assert [(intent.kind, intent.state) for intent in orders.ledger.intents(DATASET.name)] == [(PUBLISH, OPEN)]


@pytest.mark.parametrize("said", ["no text\0", "half a pair \ud800"])
def test_a_reason_that_no_database_keeps_is_refused_before_a_key_is_claimed(
    orders: Guarded, ledger: Ledger, said: str
) -> None:
    with pytest.raises(UsageError, match="the reason is not text"):
        orders.write([DAY], put(1), ME, said)

    assert not ledger.claims("shop.orders")


def test_a_claim_goes_back_also_where_the_failure_cant_be_noted(orders: Guarded, ledger: Ledger) -> None:
    def fail(_: object) -> None:
        raise ValueError("said by a driver: \0 \ud800")

    with pytest.raises(ValueError, match="said by a driver"):
        orders.write([DAY], fail, ME)

    assert not ledger.claims("shop.orders")

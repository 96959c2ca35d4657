"""The lab's one-page report, in Korean: written from what happened, and from nothing else."""

from __future__ import annotations

from typing import TypedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from backfill_core.answers import AmendAnswer, RunAnswer


class Sums(TypedDict):
    """Orders and their amount."""

    orders: int
    amount: int


class Split(TypedDict):
    """A range run in one go and day by day, and whether running it again changed any row."""

    whole: Sums
    by_day: Sums
    rerun_changed: bool


class Double(TypedDict):
    """What an additive total makes of a backfill; amounts. gap = add_after_backfill - true_total."""

    backfill_range: list[str]
    true_total: int
    add_after_backfill: int
    gap: int


class Totals(TypedDict):
    """The derived totals."""

    order_total: int
    amount_total: int


class Story(TypedDict):
    """What happened, as the runner answered it.

    scheduled: the regular runs, one a day. met: the regular run that came upon the backfill's claim.
    rerun: the backfill. retried: the regular run after the release. correction: of the sealed day.
    """

    scheduled: list[RunAnswer]
    met: RunAnswer
    rerun: RunAnswer
    retried: RunAnswer
    correction: AmendAnswer
    rollup: Totals
    split: Split
    double: Double


def page(story: Story) -> str:
    """Return the report as Markdown, four sections on one page."""
    scheduled, met, rerun, retried = story["scheduled"], story["met"], story["rerun"], story["retried"]
    correction, split, double, rollup = story["correction"], story["split"], story["double"], story["rollup"]
    regular = [dt for run in scheduled for dt in run["done"]]
    [(contested, held)] = met["skipped"]
    holder = held.removeprefix("claimed_by:")
    late_orders = correction["orders_after"] - correction["orders_before"]
    late_amount = correction["amount_after"] - correction["amount_before"]
    first, last = double["backfill_range"]
    return f"""\
# 백필 보고서

정기 실행이 만든 파티션은 {len(regular)}개({regular[0]} ~ {regular[-1]})이고, 지금 `daily`에서 다시 계산한 누적은
주문 {rollup["order_total"]}건, 금액 {rollup["amount_total"]}이다.

## 무엇을 다시 돌렸나

정기 실행 `{scheduled[0]["owner"]}`가 하루씩 {len(regular)}번 돌아 파티션을 하나씩 만들었다. 그 뒤 `{rerun["owner"]}`이
아래 순서로 다시 돌렸다. 파티션은 하나씩 통째로, 각각 한 트랜잭션에서 교체되었다.

| 순서 | 파티션 | 결과 |
| --- | --- | --- |
{_order(rerun)}

교체된 {len(rerun["done"])}개의 합은 주문 {rerun["orders"]}건, 금액 {rerun["amount"]}이다. 전체 범위를 한 번에 돌리면
주문 {split["whole"]["orders"]}건에 금액 {split["whole"]["amount"]}, 하루씩 나누어 돌리면 주문 {split["by_day"]["orders"]}건에
금액 {split["by_day"]["amount"]}이다. 한 번 더 돌렸을 때 바뀐 행은 {"있다" if split["rerun_changed"] else "없다"}.

## 정기 실행과 어떻게 부딪혔나

`{holder}`이 범위를 예약(claim)해 둔 동안 정기 실행 `{met["owner"]}`가 {contested}을 쓰려고 했다. 정기 실행은 기다리지도
덮어쓰지도 않고 `{held}`라는 이유를 남기고 건너뛰었다. 쓴 파티션은 {len(met["done"])}개다. 예약이 풀린 뒤 같은 정기 실행이
다시 와서 {", ".join(retried["done"])}을 주문 {retried["orders"]}건, 금액 {retried["amount"]}으로 교체했다.

## 누적 집계는 왜 두 배가 되나

파티션 교체는 몇 번을 해도 결과가 같지만, 더하는 집계는 다시 돌린 만큼 또 더한다. 전체를 한 번 더한 뒤 {first} ~ {last}을
다시 돌리고 그 구간을 또 더했더니 금액 누적이 {double["add_after_backfill"]}이 되었다. 실제 값은 {double["true_total"]}이므로
{double["gap"]}만큼 부풀었고, 이 차이는 두 번 더해진 구간의 금액과 정확히 같다. 그래서 누적은 더하지 않고 `daily` 전체에서
다시 계산해 덮어쓴다.

## 되돌리면 안 되는 자리

{correction["dt"]}은 이미 보고되어 봉인(seal)된 날이다. 보낸 숫자는 데이터가 아니라 사건이므로 고쳐 쓰지 않는다. 늦게 도착한
주문 {late_orders}건(금액 {late_amount})은 `daily`를 건드리지 않고 정정(correction)으로 옆에 적었다.

| | 주문 | 금액 |
| --- | --- | --- |
| 보낸 값 | {correction["orders_before"]} | {correction["amount_before"]} |
| 바로잡은 값 | {correction["orders_after"]} | {correction["amount_after"]} |

사유: {correction["reason"]}
"""


def _order(rerun: RunAnswer) -> str:
    outcomes = {dt: f"건너뜀: {reason}" for dt, reason in rerun["skipped"]} | dict.fromkeys(rerun["done"], "교체")
    return "\n".join(f"| {number} | {dt} | {outcomes[dt]} |" for number, dt in enumerate(sorted(outcomes), start=1))

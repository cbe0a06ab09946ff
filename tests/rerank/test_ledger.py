"""Tokens and dollars by stage, and the budget as a plain sum."""

import json

import pytest

from memrerank.errors import ConfigError
from memrerank.rerank.ledger import Ledger, Price
from memrerank.schema import Usage

PRICE = Price(input=2.0, cached_input=0.5, output=8.0, batch=0.5, date="2026-11-01")


def test_cached_input_has_a_price_of_its_own() -> None:
    assert PRICE.cost(Usage(1_000_000, 400_000, 250_000)) == pytest.approx(
        0.6 * 2.0 + 0.4 * 0.5 + 0.25 * 8.0
    )


def test_calls_tokens_and_cost_are_counted_by_stage() -> None:
    ledger = Ledger(PRICE)
    ledger.stage = "train"
    assert ledger.add(Usage(100, 40, 10)) == pytest.approx((60 * 2 + 40 * 0.5 + 10 * 8) / 1e6)
    ledger.add(Usage(100, 0, 10))
    ledger.stage = "dev"
    ledger.add(Usage(50, 0, 5), factor=0.5)
    ledger.count("retries")
    metrics = ledger.metrics()
    assert metrics["judge/train/calls"] == 2
    assert metrics["judge/train/input_tokens"] == 200
    assert metrics["judge/train/cached_input_tokens"] == 40
    assert metrics["judge/train/output_tokens"] == 20
    assert metrics["judge/dev/retries"] == 1
    assert metrics["judge/dev/cost_usd"] == pytest.approx((50 * 2 + 5 * 8) / 1e6 / 2)
    total = metrics["judge/train/cost_usd"] + metrics["judge/dev/cost_usd"]
    assert metrics["judge/cost_usd"] == pytest.approx(total)
    assert ledger.spent == pytest.approx(total)


def test_without_a_price_the_cost_is_not_told() -> None:
    ledger = Ledger()
    assert ledger.add(Usage(100, 0, 10)) == 0
    assert "judge/cost_usd" not in ledger.metrics()
    assert "judge/evaluate/cost_usd" not in ledger.metrics()
    assert ledger.metrics()["judge/evaluate/calls"] == 1


def test_money_is_set_aside_until_the_budget_is_full() -> None:
    ledger = Ledger(PRICE, budget_usd=1.0)
    assert ledger.reserve(0.6)
    assert not ledger.reserve(0.6)
    assert ledger.reserve(0.4)
    ledger.release(0.6)
    assert ledger.reserve(0.6)
    assert not ledger.reserve(0.01)


def test_what_got_no_answer_counts_in_full_and_is_told() -> None:
    ledger = Ledger(PRICE, budget_usd=1.0)
    ledger.add_unanswered(0.3)
    assert ledger.spent == pytest.approx(0.3)
    assert ledger.metrics()["judge/unconfirmed_cost_usd"] == pytest.approx(0.3)
    assert ledger.metrics()["judge/evaluate/unanswered_attempts"] == 1
    told = str(ledger.overspent(0.8))
    assert "reranker.budget_usd=1.0: 0.3000 US dollars are spent" in told
    assert "0.3000 of them on attempts without an answer" in told
    assert "may cost up to 0.8000" in told


def test_the_bound_of_a_call_is_a_byte_a_token() -> None:
    assert Ledger(PRICE).bound(1_000, 500) == pytest.approx((1_000 * 2 + 500 * 8) / 1e6)
    assert Ledger().bound(1_000, 500) == 0


def test_a_resumed_run_goes_on_with_what_was_spent() -> None:
    ledger = Ledger(PRICE, budget_usd=1.0)
    ledger.add(Usage(100_000, 0, 10_000))
    ledger.add_unanswered(0.1)
    again = Ledger(PRICE, budget_usd=1.0)
    again.restore(json.loads(json.dumps(ledger.state())))
    assert again.metrics() == ledger.metrics()
    assert not again.reserve(0.63)
    assert again.reserve(0.61)


def test_budgets_that_cannot_work() -> None:
    with pytest.raises(ConfigError, match=r"reranker\.budget_usd=1\.0 needs to know"):
        Ledger(None, 1.0)
    with pytest.raises(ConfigError, match=r"rewriter\.budget_usd=-1\.0 is negative"):
        Ledger(PRICE, -1.0, "rewriter")

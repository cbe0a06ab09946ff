"""Memories written from the demo shoppers' hidden preferences: how far a memory could go."""

from collections.abc import Sequence

from memrerank.data.demo import DemoSettings, HiddenPreferences, Taste, hidden_preferences
from memrerank.errors import ConfigError
from memrerank.schema import History, Memory, Target


class OracleMemory:
    """The upper bound of the demo: reads no purchase, only what the shopper secretly likes.

    The within field holds the shopper's taste in the query's category; for `wc` the cross field
    holds their pastime, whether or not it matters in that category.
    """

    def __init__(self, settings: DemoSettings, target: Target) -> None:
        self.target = target
        self._preferences = hidden_preferences(settings)

    def build(self, histories: Sequence[History]) -> list[Memory]:
        """One memory per history, in order.

        Raises:
            ConfigError: a history is not of a shopper, or not in a category, of this demo store.
        """
        return [self._memory(history) for history in histories]

    def _memory(self, history: History) -> Memory:
        preferences = self._preferences.get(history.user_id)
        if preferences is None or history.category not in preferences.tastes:
            raise ConfigError(
                f"baseline=oracle knows nothing of user {history.user_id} in "
                f"{history.category}: it works with data=demo, on the store made from the same "
                "data settings; choose another baseline="
            )
        return Memory(
            within=describe_taste(preferences.tastes[history.category]),
            cross=describe_pastime(preferences) if self.target is Target.wc else "",
        )


def describe_taste(taste: Taste) -> str:
    """A within-category preference in a sentence."""
    liked = ", ".join(value.name for value in taste.values.values())
    brands = " and ".join(taste.brand_names)
    return f"Likes {liked}. Favorite brands: {brands}. Price: {taste.tier_value.name}."


def describe_pastime(preferences: HiddenPreferences) -> str:
    """A cross-category preference in a sentence."""
    return f"Buys things {preferences.pastime.use.name}."

"""The embedded demo store: a made-up shop, in the files of Amazon-Reviews-2023 and Amazon-C4."""

from memrerank.data.demo.settings import DemoSettings
from memrerank.data.demo.shoppers import HiddenPreferences, Taste, hidden_preferences
from memrerank.data.demo.writer import write_demo_store

__all__ = ["DemoSettings", "HiddenPreferences", "Taste", "hidden_preferences", "write_demo_store"]

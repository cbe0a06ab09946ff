"""Group-relative policy optimisation over sampled memories."""

"""RolloutGroups to Rewards: the pluggable reward callbacks."""

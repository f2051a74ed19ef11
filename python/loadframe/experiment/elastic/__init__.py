"""What elastic experiments are made of: loads over time, triggers, changes of the cluster, scaling policies."""

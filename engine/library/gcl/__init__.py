"""Collectives: sums and exchanges of tensors between replicas, and between the IPUs of one."""

"""Clients that mean harm, beside one that does not: what the second notices of the first is the measure."""

"""What the tables of built-in kinds show: a function per cell, by resource and column."""

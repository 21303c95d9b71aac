"""Requests that nobody sends on purpose, against our server: none may get a 5xx that upstream would not give."""

"""MachineHealthCheck: finds machines whose Node falls silent or never comes, and has them replaced."""

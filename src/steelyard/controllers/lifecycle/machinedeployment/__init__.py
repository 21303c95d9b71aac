"""MachineDeployment: MachineSets of a template's revisions, and the way from one to the next."""

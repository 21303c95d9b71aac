"""MachineSet: as many machines of one template as it says."""

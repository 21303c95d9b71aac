"""What a machine is told at its first start: a disk image with four files, as cloud-init's NoCloud reads them. Pure."""

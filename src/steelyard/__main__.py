"""`python -m steelyard` is the `steelyard` command."""

import os

from steelyard import interrupts

# Pydantic would look through everything that is installed for plugins, and there are none of ours.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def main() -> None:
    interrupts.end_at_once()
    from steelyard import collecting

    with collecting.paused():
        from steelyard.cli.main import main as command
    try:
        command()
    finally:
        interrupts.end_at_once()


if __name__ == "__main__":
    main()

"""`python -m steelyard` is the `steelyard` command."""

from steelyard import interrupts


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

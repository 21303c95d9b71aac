"""`python -m steelyard` is the `steelyard` command."""

from steelyard import collecting


def main() -> None:
    with collecting.paused():
        from steelyard.cli.main import main as command
    command()


if __name__ == "__main__":
    main()

"""mteb's own command, with our tasks among its tasks.

mteb looks up tasks by name in its own list, and has no option or entry point to extend it. This command adds our tasks
to that list, then does what ``mteb`` does. The options before ``run`` are ours; all others are mteb's::

    model=openai/clip-vit-base-patch32
    python -m cxc_eccv.integrations.mteb_command --images val2014 run -m $model -t CxcEccvI2T CxcEccvT2I
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

from cxc_eccv.errors import CxcEccvError
from cxc_eccv.extras import needs_extra
from cxc_eccv.integrations.mteb import TASK_KINDS, task_class

with needs_extra("mteb"):
    from mteb.cli.build_cli import build_cli
    from mteb.get_tasks import _TASKS_REGISTRY

MTEB_SPLITS = ("test", "validation")


def register_tasks(
    images: str | Path | None = None, data_dir: str | Path | None = None, output: str | Path | None = None
) -> list[str]:
    """Let ``mteb.get_task`` and mteb's command find our tasks in this process; return their names.

    Args:
        images: folder with the images of the split; ``t2t`` needs none.
        data_dir: mirror folder, ``"sample"``, or None for ``CXC_ECCV_DATA``, else the download cache.
        output: folder for the report of every model, as of :func:`cxc_eccv.integrations.mteb.mteb_task`.

    Example:
        >>> register_tasks(data_dir="sample")[:2]
        ['CxcEccvI2T.sample', 'CxcEccvI2T.validation.sample']
    """
    tasks = {}
    for direction, split in product(TASK_KINDS, MTEB_SPLITS):
        task = task_class(direction, split, images, data_dir, output)
        tasks[task.metadata.name] = task
    _TASKS_REGISTRY.update(tasks)
    return list(tasks)


def main() -> None:
    """Run mteb's command."""
    parser = build_cli()
    parser.add_argument("--images", help="folder with the images of the split; CxcEccvT2T needs none")
    parser.add_argument("--data-dir", help="folder with the raw files; 'sample' for the embedded sample")
    parser.add_argument("--reports", help="folder for this package's reports, with intervals and queries' values")
    options = parser.parse_args()
    if "func" not in options:
        parser.error("name a subcommand of mteb, as run")
    try:
        register_tasks(options.images, options.data_dir, options.reports)
        options.func(options)
    except CxcEccvError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

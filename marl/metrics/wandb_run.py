"""A run in Weights & Biases: the only importer of wandb, which is an optional package."""

import io
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena.extras import install_hint
from arena.files import write_atomically
from marl.errors import UserError

RUN_ID = "wandb_id"


class WandbRun:
    """Sends metrics, the configuration, videos and a summary. Horizontal axis: `episode`, or any metric in W&B."""

    def __init__(self, folder: Path, project: str, is_resumed: bool, config: Mapping[str, Any]) -> None:
        """is_resumed: continue the W&B run of this folder, if there is one."""
        missing = f"--wandb needs the package wandb (or leave --wandb out); {install_hint('wandb')}"
        try:
            import wandb
        except ImportError:
            raise UserError(missing) from None
        if not hasattr(wandb, "init"):  # a folder ./wandb of an earlier run is imported as an empty package
            raise UserError(missing)
        self._wandb = wandb
        # The id is kept in the run folder: a resumed run continues its curves, and two runs of one name stay separate.
        kept = folder / RUN_ID
        run_id = kept.read_text("utf-8").strip() if is_resumed and kept.is_file() else secrets.token_hex(8)
        try:
            self._run = wandb.init(
                project=project, dir=str(folder), name=folder.name, id=run_id, resume="allow", config=dict(config)
            )
            self._run.define_metric("*", step_metric="episode")  # W&B's own step can only rise, ours may fall
            write_atomically(kept, f"{run_id}\n".encode())
        except Exception as error:  # of any kind: the account, the network or the disk
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            advice = "try `wandb login`, set WANDB_MODE=offline or leave --wandb out"
            raise UserError(f"--wandb: {reason}; {advice}") from None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Send the values of an episode."""
        self._run.log({"episode": int(step), **values})

    def animation(self, step: int, tag: str, gif: bytes) -> None:
        """Send a GIF file as a video."""
        self._run.log({"episode": int(step), tag: self._wandb.Video(io.BytesIO(gif), format="gif")})

    def summarise(self, values: Mapping[str, Any]) -> None:
        """Set the results of the run, the columns of W&B's table of runs."""
        self._run.summary.update(dict(values))

    def finish(self) -> None:
        """End the W&B run."""
        self._run.finish()

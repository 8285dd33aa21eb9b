"""One run of a peer: `python _rl_peers.py WORK PEER STEPS SEED`, in an environment that has the peer.

Prints one line of JSON: steps_per_s of the whole training call, and the mean return of the last 100 episodes.
"""
# The peers' packages are in an environment of their own, which no type checker sees.
# pyright: basic, reportMissingImports=false

import json
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from _rl_works import ROLLOUT, WORKS, Work, make
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize


def stable_baselines(work: Work, steps: int, seed: int, *, processes: bool) -> tuple[float, float]:
    """Train with Stable-Baselines3 and return seconds and the last return."""
    makers = [partial(make, work, number) for number in range(work.simulators)]
    simulators = VecMonitor(SubprocVecEnv(makers) if processes else DummyVecEnv(makers))
    if work.normalised:
        simulators = VecNormalize(simulators, gamma=0.99)
    model = PPO(
        "MlpPolicy",
        simulators,
        learning_rate=lambda left: work.learning_rate * left,
        n_steps=ROLLOUT,
        batch_size=work.minibatch,
        n_epochs=work.epochs,
        clip_range=0.2,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        seed=seed,
        device="cpu",
        policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
    )
    began = time.perf_counter()
    model.learn(steps)
    seconds = time.perf_counter() - began
    ends = [float(episode["r"]) for episode in model.ep_info_buffer or ()]
    simulators.close()
    return seconds, sum(ends) / max(1, len(ends))


def main() -> None:
    """Run what the arguments say."""
    name, peer, steps, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    seconds, final = stable_baselines(WORKS[name], steps, seed, processes=peer == "sb3-subproc")
    sys.stdout.write(json.dumps({"steps_per_s": steps / seconds, "final_return": final}) + "\n")


if __name__ == "__main__":
    main()

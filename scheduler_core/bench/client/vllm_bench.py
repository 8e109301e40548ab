"""Runs `vllm bench serve` with the words of the command line; lives in the peers' environment.

vLLM's own command asks for the version of a package `vllm`, which its build for CPUs does not have.
"""

from __future__ import annotations

from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser

if __name__ == "__main__":
    parser = FlexibleArgumentParser(prog="vllm bench serve")
    add_cli_args(parser)
    main(parser.parse_args())

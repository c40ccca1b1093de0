"""Run the benchmarks: ``python -m benchmarks [job ...] [--quick]``."""

import argparse

from . import readme, report
from .data import Absent
from .jobs import JOBS


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="job", help=f"of {', '.join(JOBS)}; all if none")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the harness")
    options = parser.parse_args()
    if unknown := set(options.jobs) - set(JOBS):
        parser.error(f"no job {', '.join(sorted(unknown))}; choose from {', '.join(JOBS)}")

    print(report.heading(), flush=True)
    sections = []
    for name in options.jobs or JOBS:
        print(f"\n[{name}]", flush=True)
        stamp = report.stamp()
        try:
            section = JOBS[name](options.quick)
        except Absent as reason:
            print(f"skipped: {reason}")
            continue
        sections.append(section)
        print("\n" + section.markdown(), flush=True)
        # Ratios are taken within a job, so a job may be run, and its figures replaced, alone.
        if not options.quick:
            report.keep(name, section, stamp)
            report.write(JOBS)
            readme.write()
    print("\n" + report.summary(sections))
    if options.quick:
        print("\nThe targets are meant for the full sizes.")


if __name__ == "__main__":
    main()

"""Judge one figure of a paper: run it, and print what it claims beside what was found. Takes some seconds."""

import json
import subprocess

done = subprocess.run(
    ["penstock", "reproduce", "D-7", "--quick", "--json"], capture_output=True, text=True, check=True
)
(row,) = json.loads(done.stdout)
print(row["id"], row["verdict"])
for claim in row["claims"]:
    print(
        f"  {claim['verdict']:10} stated {claim['stated']!r}, measured {claim['measured'].splitlines()[0]!r}"
    )

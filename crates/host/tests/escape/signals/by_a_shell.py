# canary: death
# Another program does it.
import subprocess

subprocess.run(["sh", "-c", f"kill -9 {canary['victim']}"])

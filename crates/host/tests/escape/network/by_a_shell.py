# canary: tcp
# bash has a network of its own.
import subprocess

script = f"exec 3<>/dev/tcp/127.0.0.1/{canary['tcp']} && cat <&3"
print("CANARY:" + subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout)

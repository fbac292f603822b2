

def _put_file(path, size, base64_text):
    """A file that was put into the workspace from outside."""
    if base64_text is None:
        if not os.path.exists(path):
            sys.exit(f"{path} ({size} bytes) was too large to be recorded; put it into {os.getcwd()}")
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(base64.b64decode(base64_text))

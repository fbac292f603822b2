# Another session, with secrets of its own wherever its walls let it put them. Says where they are.
import json
import os
import socket
import threading


def leave(path):
    with open(path, "w") as file:
        file.write(secret)


def serve(service):
    service.listen(8)

    def forever():
        while True:
            service.accept()[0].sendall(secret.encode())

    threading.Thread(target=forever, daemon=True).start()


def tcp():
    service = socket.socket()
    service.bind(("127.0.0.1", 0))
    serve(service)
    facts["port"] = service.getsockname()[1]


def abstract():
    service = socket.socket(socket.AF_UNIX)
    service.bind("\0" + names["socket"])
    serve(service)


facts = {"pid": os.getpid()}
for place in (lambda: leave("secret.txt"), lambda: leave(names["file"]), lambda: leave(names["memory"]), tcp, abstract):
    try:
        place()
    except OSError:
        pass
print(json.dumps(facts))

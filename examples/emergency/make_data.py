"""Makes data/: a schema, and five scenarios of an emergency with tasks, carriers, resources, places, ways and risks."""

import itertools
import json
import random
from pathlib import Path

FOLDER = Path(__file__).parent / "data"
TASK_TYPES = ["运输", "救援", "医疗"]
PRIORITIES = ["高", "中", "低"]
STATES = ["pending", "in_progress", "completed", "failed"]
DISASTERS = ["地震", "洪水", "火灾"]
CARRIERS = ["卡车", "无人机", "直升机"]
OTHER_TYPES = ["Carrier", "Resource", "Location", "Path", "RiskPoint", "TaskFeedback"]


def schema() -> dict:
    text = {"type": "string"}
    properties = {
        "task_id": text,
        "task_type": {"enum": TASK_TYPES},
        "priority": {"enum": PRIORITIES},
        "status": {"enum": STATES},
        "created_at": {"type": "string", "format": "date-time"},
        "disaster_type": {"enum": DISASTERS},
        "resource_id": text,
        "from": text,
        "to": text,
        "assigned_to": {"type": ["string", "null"]},
    }
    definitions = {"Task": {"type": "object", "properties": properties}}
    definitions |= {name: {"type": "object"} for name in OTHER_TYPES}
    draft = "http://json-schema.org/draft-07/schema#"
    return {"$schema": draft, "title": "应急物资运输调度", "definitions": definitions}


def scenario(chance: random.Random) -> dict:
    places = [
        {
            "location_id": f"L{i}",
            "lat_lng": [round(39.7 + chance.random() * 0.5, 5), round(116.1 + chance.random() * 0.6, 5)],
            "address": f"合成地址{i}",
            "location_type": chance.choice(["仓库", "灾区", "医院"]),
        }
        for i in range(12)
    ]
    carriers = [
        {
            "carrier_id": f"C{i}",
            "carrier_type": chance.choice(CARRIERS),
            "capacity": chance.choice([1.0, 5.0, 10.0]),
            "status": "idle",
            "location": chance.choice(places)["lat_lng"],
        }
        for i in range(6)
    ]
    resources = [
        {
            "resource_id": f"R{i}",
            "resource_type": chance.choice(["食品", "药品", "帐篷"]),
            "quantity": chance.randint(1, 9),
            "unit": "吨",
        }
        for i in range(10)
    ]
    tasks = [
        {
            "task_id": f"T{i}",
            "task_type": chance.choice(TASK_TYPES),
            "priority": chance.choice(PRIORITIES),
            "status": "pending",
            "created_at": f"2025-11-25T{i:02d}:00:00",
            "disaster_type": chance.choice(DISASTERS),
            "resource_id": f"R{i % 10}",
            "from": chance.choice(places)["location_id"],
            "to": chance.choice(places)["location_id"],
            "assigned_to": None,
        }
        for i in range(15)
    ]
    pairs = itertools.islice(itertools.combinations(places, 2), 40)
    paths = [
        {
            "path_id": f"P{i}",
            "waypoints": [a["location_id"], b["location_id"]],
            "distance": round(chance.random() * 30, 2),
            "estimated_time": round(chance.random(), 2),
        }
        for i, (a, b) in enumerate(pairs)
    ]
    risks = [
        {
            "risk_id": f"K{i}",
            "location": chance.choice(places)["lat_lng"],
            "risk_type": chance.choice(["滑坡", "断路"]),
            "risk_level": round(chance.random(), 2),
        }
        for i in range(4)
    ]
    return {
        "locations": places,
        "carriers": carriers,
        "resources": resources,
        "tasks": tasks,
        "paths": paths,
        "risk_points": risks,
        "task_feedback": [],
    }


def write(name: str, value: dict) -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    chance = random.Random(4)
    write("schema.json", schema())
    for number in range(1, 6):
        write(f"emergency_response_data_{number:02d}.json", scenario(chance))


if __name__ == "__main__":
    main()

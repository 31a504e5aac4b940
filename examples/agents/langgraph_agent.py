"""A ReAct agent of LangGraph with one tool. It knows nothing of assay."""

import json
import os
import subprocess
import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent


@tool
def bash(command: str) -> str:
    """Runs a command in the work directory and returns its output and exit status."""
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, errors="replace", timeout=120)
    return f"{done.stdout}{done.stderr}\n[exit status {done.returncode}]"[-20_000:]


def main() -> None:
    model = ChatOpenAI(model=os.environ["AGENT_MODEL"], max_retries=int(os.environ.get("AGENT_RETRIES", "2")))
    agent = create_react_agent(model, [bash], prompt="You solve tasks in the current directory with the shell.")
    end = agent.invoke({"messages": [("user", sys.argv[1])]}, {"recursion_limit": 100})
    with open(os.environ["AGENT_LOG"], "w") as log:
        for message in end["messages"]:
            log.write(json.dumps(message.model_dump(), default=str) + "\n")
    print(end["messages"][-1].content)


main()

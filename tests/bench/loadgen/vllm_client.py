"""A closed loop with vLLM's own request function, as `vllm bench serve --max-concurrency` has it: all requests are tasks of one
event loop, a semaphore lets C of them run. Without its engine's libraries the rest of that program cannot be imported.

  vllm_client.py DIRECTORY URL CONCURRENCY REQUESTS TOKENS OUT      DIRECTORY holds endpoint_request_func.py
"""
import asyncio, json, resource, sys

sys.path.insert(0, sys.argv[1])
import aiohttp
from endpoint_request_func import RequestFuncInput, async_request_openai_chat_completions

async def main(url, concurrency, requests, tokens, out):
    gate = asyncio.Semaphore(concurrency)
    connector = aiohttp.TCPConnector(limit=concurrency, limit_per_host=concurrency, keepalive_timeout=60, force_close=False)
    prompt = " ".join(["word"] * 100)
    async with aiohttp.ClientSession(connector=connector, trust_env=False, timeout=aiohttp.ClientTimeout(total=600)) as session:
        async def one(number):
            async with gate:
                return await async_request_openai_chat_completions(
                    RequestFuncInput(prompt=prompt, api_url=url + "/v1/chat/completions", prompt_len=100, output_len=tokens, model="mock", model_name="mock",
                                     request_id=f"vllm-{number}"), session)
        results = await asyncio.gather(*(one(n) for n in range(requests)))
    with open(out, "w") as f:
        json.dump({f"vllm-{n}": dict(ok=r.success, ttft=r.ttft * 1000, itl=sum(r.itl) / len(r.itl) * 1000 if r.itl else None) for n, r in enumerate(results)}, f)

limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
asyncio.run(main(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]))

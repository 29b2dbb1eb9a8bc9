"""An MCP server on FastMCP that accepts the keys of an mcp-key-server: python3 fastmcp_service.py URL ID KEY [PORT]"""
import json, sys
from verifier import KeyVerifier, Unavailable

class Refusals:
    """Answers 429 and 503 where verify_token raises. Add it outside of the authentication, which would make a 500 of it."""
    def __init__(self, app):
        self.app = app
    async def __call__(self, scope, receive, send):
        try:
            await self.app(scope, receive, send)
        except Unavailable as error:
            found, headers = error.refused, [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
            if found.retry_after is not None:
                headers.append((b"retry-after", str(found.retry_after).encode()))
            await send({"type": "http.response.start", "status": found.status, "headers": headers})
            said = json.dumps({"error": found.code, "error_description": found.detail})
            await send({"type": "http.response.body", "body": said.encode()})

if __name__ == "__main__":
    import uvicorn
    from fastmcp import FastMCP
    from fastmcp.server.auth import TokenVerifier
    keys = KeyVerifier(*sys.argv[1:4])
    class Keys(TokenVerifier):
        async def verify_token(self, token):
            return await keys.verify_token(token)
    app = FastMCP("service", auth=Keys()).http_app()
    app.add_middleware(Refusals)  # the last one that is added is the outermost
    uvicorn.run(app, host="127.0.0.1", port=int((sys.argv[4:] or [8080])[0]))

const FORM = /^(?:postgres(?:ql)?:\/\/|socket:\/)\S+$/;
const HOST_AND_PORT = /^(?:\[[^\]]*\]|[^:[\]]*)(?::(.*))?$/s;
const ENCODE =
  "in user and password write / as %2F, ? as %3F, # as %23, : as %3A, @ as %40 and % as %25";

/**
 * What is wrong with a connection string, as `expected …, found …`; undefined when it can be used.
 * Nothing of the string itself is told: what stands in the wrong place may be a part of the password.
 */
export function postgresUrlProblem(text: string): string | undefined {
  if (text === "") return "expected a URL that begins with postgres:// and has no spaces, found ''";
  if (!FORM.test(text))
    return "expected a URL that begins with postgres:// and has no spaces, found another string";
  if (text.includes("#")) return `expected no raw #, found one, which would end the URL; ${ENCODE}`;
  if (text.startsWith("socket:")) return undefined;
  return placesProblem(text) ?? encodingProblem(text);
}

function placesProblem(text: string): string | undefined {
  const [, authority = "", path = "", query = ""] =
    /^[^:]+:\/\/([^/?]*)([^?]*)\??(.*)$/s.exec(text) ?? [];
  const [setting = ""] = query.split("=");
  if (path.includes("@") || setting.includes("@"))
    return `expected the host behind the last @, found a / or ? before it; ${ENCODE}`;
  const server = authority.slice(authority.lastIndexOf("@") + 1);
  if (server.includes(",")) return "expected one host, found a list of them";
  const ports = [HOST_AND_PORT.exec(server)?.[1], new URLSearchParams(query).get("port")];
  if (!ports.every(isPort))
    return `expected a port of 1..65535 behind the host, found something else; ${ENCODE}`;
  return undefined;
}

const isPort = (port: string | null | undefined): boolean =>
  !port || (/^\d{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65_535);

function encodingProblem(text: string): string | undefined {
  try {
    // As pg reads it: a % that encodes nothing stands for itself, and the host may be missing.
    const lenient = /%[^a-f0-9]|%[a-f0-9][^a-f0-9]/i.test(text)
      ? encodeURI(text).replaceAll(/%25(\d\d)/g, "%$1")
      : text;
    const url = new URL(lenient.replace("@/", "@host/"));
    for (const part of [url.username, url.password, url.pathname]) decodeURIComponent(part);
    return undefined;
  } catch (error) {
    const found = error instanceof URIError ? "a % that encodes no UTF-8" : "none";
    return `expected a URL that can be parsed, found ${found}; ${ENCODE}`;
  }
}

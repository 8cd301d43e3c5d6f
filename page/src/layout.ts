// Where nodes stand: by tiers where a network has tiers, else by forces. Coordinates are 0..1 in both directions.
import type { Head } from "./log";

export interface Place {
  x: number;
  y: number;
}
export interface Layout {
  places: Place[];
  /** What the network was taken for. */
  kind: "star" | "chain" | "tiers" | "forces";
}

export function layout(head: Head): Layout {
  const n = head.nodes.length;
  const isSwitch = head.nodes.map((node) => node[1] === 1);
  const near: number[][] = Array.from({ length: n }, () => []);
  for (const link of head.links) if (!near[link.from].includes(link.to)) near[link.from].push(link.to);
  const switches = range(n).filter((i) => isSwitch[i]);
  const receiver = head.links[head.bottleneck]?.to ?? -1;
  if (switches.length === 1) return { kind: "star", places: star(n, switches[0], receiver) };
  const trunk = (s: number) => near[s].filter((v) => isSwitch[v]);
  const ends = switches.filter((s) => trunk(s).length === 1);
  if (ends.length === 2 && switches.every((s) => trunk(s).length <= 2)) {
    return { kind: "chain", places: chain(near, isSwitch, ends[0], switches.length) };
  }
  // A switch's tier: how far the nearest host is. Tiers it is when no cable stays within one.
  const level = levels(near, isSwitch);
  const flat = switches.some((s) => trunk(s).some((v) => Math.abs(level[s] - level[v]) !== 1));
  if (switches.length > 1 && !flat) return { kind: "tiers", places: tiers(near, level) };
  return { kind: "forces", places: forces(near) };
}

const range = (n: number) => Array.from({ length: n }, (_, i) => i);
/** Position `i` of `n` in the middle of its share. */
const share = (i: number, n: number) => (i + 0.5) / n;

/** `list` in columns of at most `most`, from `x` on in direction `dx`. */
function columns(places: Place[], list: number[], x: number, dx: number, top = 0, bottom = 1, most = 24): void {
  const count = Math.ceil(list.length / most);
  const rows = Math.ceil(list.length / Math.max(count, 1));
  list.forEach((node, i) => {
    const column = Math.floor(i / rows);
    const inColumn = Math.min(rows, list.length - column * rows);
    const y = top + (bottom - top) * share(i - column * rows, inColumn);
    places[node] = { x: x + dx * column, y };
  });
}

function star(n: number, centre: number, receiver: number): Place[] {
  const places: Place[] = [];
  const hosts = range(n).filter((i) => i !== centre);
  const right = hosts.filter((i) => i === receiver);
  const left = hosts.filter((i) => i !== receiver);
  const most = Math.max(40, Math.ceil(left.length / 4));
  columns(places, left, 0.06, 0.1, 0, 1, most);
  columns(places, right, 0.94, 0);
  places[centre] = { x: right.length > 0 ? 0.6 : 0.75, y: 0.5 };
  return places;
}

function chain(near: number[][], isSwitch: boolean[], first: number, count: number): Place[] {
  const places: Place[] = [];
  let [at, from] = [first, -1];
  for (let i = 0; i < count; i++) {
    const x = 0.25 + (0.5 * i) / (count - 1);
    places[at] = { x, y: 0.5 };
    const hosts = near[at].filter((v) => !isSwitch[v]);
    if (i === 0) columns(places, hosts, 0.06, 0.07);
    else if (i === count - 1) columns(places, hosts, 0.94, -0.07);
    else {
      const half = Math.ceil(hosts.length / 2);
      const width = 0.4 / (count - 1);
      hosts.forEach((h, k) => {
        const [j, m, y] = k < half ? [k, half, 0.1] : [k - half, hosts.length - half, 0.9];
        places[h] = { x: x + width * (share(j, m) - 0.5), y };
      });
    }
    const next = near[at].find((v) => isSwitch[v] && v !== from);
    [from, at] = [at, next ?? at];
  }
  return places;
}

function levels(near: number[][], isSwitch: boolean[]): number[] {
  const level = isSwitch.map((s) => (s ? Infinity : 0));
  let front = range(near.length).filter((i) => !isSwitch[i]);
  for (let l = 1; front.length > 0; l++) {
    const next: number[] = [];
    for (const v of front) {
      for (const w of near[v]) {
        if (level[w] === Infinity) {
          level[w] = l;
          next.push(w);
        }
      }
    }
    front = next;
  }
  return level.map((l) => (Number.isFinite(l) ? l : 1));
}

function tiers(near: number[][], level: number[]): Place[] {
  const places: Place[] = [];
  const top = Math.max(...level);
  for (let l = 0; l <= top; l++) {
    const row = range(near.length).filter((i) => level[i] === l);
    row.forEach((node, i) => (places[node] = { x: share(i, row.length), y: 0.94 - (0.86 * l) / top }));
  }
  // A tier stands in the order of what is below it; the hosts keep their numbers.
  for (let l = 1; l <= top; l++) {
    const row = range(near.length).filter((i) => level[i] === l);
    const mean = (node: number) => {
      const below = near[node].filter((v) => level[v] < l);
      return below.reduce((sum, v) => sum + places[v].x, 0) / Math.max(below.length, 1);
    };
    const keyed = row.map((node) => [mean(node), node] as const).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    keyed.forEach(([, node], i) => (places[node].x = share(i, row.length)));
  }
  return places;
}

/** Springs along cables and repulsion between all (Fruchterman and Reingold, 1991, from memory), from a circle: always the same. */
function forces(near: number[][]): Place[] {
  const n = near.length;
  const places = range(n).map((i) => ({
    x: 0.5 + 0.45 * Math.cos((2 * Math.PI * i) / n),
    y: 0.5 + 0.45 * Math.sin((2 * Math.PI * i) / n),
  }));
  const k = Math.sqrt(1 / n);
  const rounds = n > 400 ? 60 : 250;
  for (let round = 0; round < rounds; round++) {
    const heat = 0.1 * (1 - round / rounds);
    const move = places.map(() => ({ x: 0, y: 0 }));
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < i; j++) {
        const [dx, dy] = [places[i].x - places[j].x, places[i].y - places[j].y];
        const push = (k * k) / Math.max(dx * dx + dy * dy, 1e-6);
        move[i].x += dx * push;
        move[i].y += dy * push;
        move[j].x -= dx * push;
        move[j].y -= dy * push;
      }
      for (const j of near[i]) {
        const [dx, dy] = [places[j].x - places[i].x, places[j].y - places[i].y];
        const pull = Math.hypot(dx, dy) / k;
        move[i].x += dx * pull;
        move[i].y += dy * pull;
      }
    }
    places.forEach((p, i) => {
      const length = Math.max(Math.hypot(move[i].x, move[i].y), 1e-9);
      p.x += (move[i].x / length) * Math.min(length, heat);
      p.y += (move[i].y / length) * Math.min(length, heat);
    });
  }
  const span = (get: (p: Place) => number, set: (p: Place, v: number) => void) => {
    const low = Math.min(...places.map(get));
    const wide = Math.max(...places.map(get)) - low || 1;
    for (const p of places) set(p, 0.04 + (0.92 * (get(p) - low)) / wide);
  };
  span((p) => p.x, (p, v) => (p.x = v));
  span((p) => p.y, (p, v) => (p.y = v));
  return places;
}

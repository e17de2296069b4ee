// The ratings of a league's teams by day, a line for each team that is in today's league, named at its right end.
function drawRatingDays(days, players, label, drawn, colours, place) {
  const LEFT = 52, RIGHT = 210, TOP = 14, BOTTOM = 30, WIDTH = 860, LINE = 15; // LINE: the least distance of two names
  const DAY = 86400000, time = ({ date }) => Date.parse(date) / DAY;
  const names = players.map((player) => player.name), height = Math.max(240, TOP + BOTTOM + LINE * names.length);
  const all = days.flatMap((day) => names.filter((name) => name in day.ratings).map((name) => day.ratings[name]));
  const low = Math.min(...all), high = Math.max(...all), span = Math.max(1, high - low);
  const step = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((size) => span / size <= 5) || 10000;
  const first = time(days[0]), last = time(days[days.length - 1]);
  const x = (day) => LEFT + ((WIDTH - LEFT - RIGHT) * (time(day) - first)) / Math.max(1, last - first);
  const y = (rating) => height - BOTTOM - ((height - TOP - BOTTOM) * (rating - low)) / span;
  const svg = drawn(place, "svg", { width: WIDTH, height, role: "img" });
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) {
    drawn(svg, "line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick), stroke: "#2f3748" });
    drawn(svg, "text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, String(tick));
  }
  drawn(svg, "text", { x: LEFT, y: height - 8 }, days[0].date);
  drawn(svg, "text", { x: WIDTH - RIGHT, y: height - 8, "text-anchor": "end" }, days[days.length - 1].date);
  let free = TOP; // where the next name may stand: players come from the best to the worst
  const below = (at) => LINE * (names.length - 1 - at); // room for the names that follow
  players.forEach((player, k) => {
    const of = days.filter((day) => player.name in day.ratings), stroke = colours[k % colours.length];
    const points = of.map((day) => [x(day), y(day.ratings[player.name])]);
    drawn(svg, "polyline", { points: points.map((point) => point.join(",")).join(" "), fill: "none", stroke, "stroke-width": 2 });
    for (const [cx, cy] of points) drawn(svg, "circle", { cx, cy, r: 3, fill: stroke });
    const end = points[points.length - 1], at = Math.min(Math.max(free, end[1]), Math.max(free, height - BOTTOM - below(k)));
    drawn(svg, "line", { x1: end[0] + 4, y1: end[1], x2: WIDTH - RIGHT + 14, y2: at, stroke, "stroke-opacity": 0.5 });
    drawn(svg, "text", { x: WIDTH - RIGHT + 18, y: at + 4, style: `fill: ${stroke}` }, label(player));
    free = at + LINE;
  });
  return svg;
}

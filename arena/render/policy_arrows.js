// The outputs of a policy on the board: an arrow for every move, with its probability unless it is 100 %.
"use strict";

// `probs` is a list by snake of [up, down, left, right], or null. Options are those of board.draw.
function drawPolicyArrows(c, cell, board, look, timeline, time, probs, options) {
  const [left, top] = options.camera || [0, 0];
  const [wide, high] = (options.turned ? [look.rows, look.columns] : [look.columns, look.rows]).map((cells) => cells * cell);
  probs.forEach((shares, snake) => {
    const head = shares && board.headAt(timeline, snake, time);
    if (!head) return;
    shares.forEach((share, move) => {
      if (share < 0.005) return;
      const [right, down] = board.STEPS[move], size = cell * (0.14 + 0.2 * share);
      const x = board.wrap(head[0] + 0.95 * right - left, look.columns), y = board.wrap(head[1] + 0.95 * down - top, look.rows);
      c.save();
      const [atX, atY] = options.turned ? [(look.rows - y) * cell, x * cell] : [x * cell, y * cell];
      c.translate(atX, atY);
      c.save();
      c.rotate(Math.atan2(down, right) + (options.turned ? Math.PI / 2 : 0));
      c.beginPath();
      c.moveTo(size, 0); c.lineTo(-size * 0.6, -size); c.lineTo(-size * 0.6, size);
      c.closePath();
      c.fillStyle = board.rgb(look.snakes[snake], 0.35 + 0.65 * share);
      c.fill();
      c.strokeStyle = `rgba(255,255,255,${0.3 + 0.6 * share})`;
      c.lineWidth = Math.max(1, cell * 0.04);
      c.stroke();
      c.restore();
      if (share >= 0.995) { c.restore(); return; } // a single arrow says it
      const text = `${Math.round(100 * share)}%`, letters = Math.max(9, cell * 0.24);
      c.font = `700 ${letters}px system-ui, sans-serif`;
      c.textAlign = "center";
      c.textBaseline = "middle";
      const width = c.measureText(text).width + letters * 0.5, far = cell * 0.36 + letters * 0.5;
      const screenDown = options.turned ? right : down; // beside the arrow, away from the head
      let [dx, dy] = screenDown ? [width / 2 + size * 0.8, 0] : [0, -far];
      if (dx && atX + dx + width / 2 > wide) dx = -dx; // at the right edge: on the left of the arrow
      dx = Math.min(Math.max(dx, width / 2 - atX), wide - width / 2 - atX); // inside the board
      dy = Math.min(Math.max(dy, letters - atY), high - letters - atY);
      c.fillStyle = "rgba(13,15,21,0.85)";
      c.fillRect(dx - width / 2, dy - letters * 0.62, width, letters * 1.24);
      c.fillStyle = "#fff";
      c.fillText(text, dx, dy);
      c.restore();
    });
  });
}

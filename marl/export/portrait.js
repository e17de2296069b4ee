// The board turned by 90 degrees clockwise: on a phone held upright it is then larger. Row r, column c of the board is row
// c, column 9 - r of the turned board, so that the shown texts stay upright.
"use strict";

function makePortrait(look) {
  const SHOWN = [3, 2, 0, 1]; // directions on the turned board, of up, down, left and right
  const place = ([row, column]) => [column, look.rows - 1 - row];
  const shown = (move) => (move < 0 ? move : SHOWN[move]);
  return {
    look: { ...look, rows: look.columns, columns: look.rows },
    state: ({ turn, snakes, directions, beans }) =>
      ({ turn, snakes: snakes.map((body) => body.map(place)), directions: directions.map(shown), beans: beans.map(place) }),
    step: (step) => step && ({
      ...step,
      moves: step.moves.map(shown),
      lunges: Object.fromEntries(Object.entries(step.lunges).map(([snake, move]) => [snake, shown(move)])),
    }),
    shown,
    // The move on the board of a direction on the turned board.
    steered: (direction) => SHOWN.indexOf(direction),
  };
}

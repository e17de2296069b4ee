// Elements of a page: `make` for HTML, `drawn` for a picture of its parent.
const make = (tag, text = "", className = "") => {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = className;
  return element;
};
const drawn = (parent, tag, values, text = "") => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
  element.textContent = text;
  parent.append(element);
  return element;
};

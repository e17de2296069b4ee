"""`snakes doctor`: checks of the machine, of ranks, and of saved runs, each reported in one line. It may import every
package of marl but marl.commands; none of them imports it. It repairs and keeps nothing.
"""

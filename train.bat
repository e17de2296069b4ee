@echo off
rem train.bat [flags]: set up .venv on the first start, then train with the flags given. Works from any folder.
rem What train_ddp.sh is on Linux. One rank per GPU that CUDA_VISIBLE_DEVICES leaves; without a GPU one process, for PPO
rem on many cores a few. More:
rem   set NPROC=2                  ranks on this machine, by torch's launcher with gloo
rem   set CONFIG=configs\x.yaml    a configuration, or its name; flags override it
setlocal
set "root=%~dp0"
set "python="
for %%v in (3.13 3.12 3.11 3.10) do if not defined python (
    py -%%v -c "" >nul 2>nul && set "python=py -%%v"
)
if not defined python (
    python -c "import sys; sys.exit(sys.version_info < (3, 10))" >nul 2>nul && set "python=python"
)
if not defined python (
    echo snakes: Python 3.10 to 3.13 is needed, from python.org >&2
    exit /b 2
)
%python% "%root%scripts\windows_venv.py" || exit /b 2
if defined CONFIG set "CONFIG=--config "%CONFIG%""
"%root%.venv\Scripts\python.exe" -m marl train --distributed %CONFIG% %*
exit /b %errorlevel%
